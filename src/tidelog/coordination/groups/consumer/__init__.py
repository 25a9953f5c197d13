"""The consumer group protocol of KIP-848: the coordinator assigns, members reconcile at their own pace."""
