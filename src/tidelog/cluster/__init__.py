"""The cluster's picture of itself, the partitions that this broker holds, and who decides about them."""
