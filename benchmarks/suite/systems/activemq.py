"""ActiveMQ of the system's package: its broker with KahaDB, driven over OpenWire by its own Java client."""

from suite.drivers.build import Missing, jms_classes
from suite.systems.base import System, package_version


class ActiveMq(System):
    name = "ActiveMQ"
    protocol = "openwire"
    settings = "KahaDB, synced once a second (its default is before each answer); heap 1 GB; queue"

    def check(self) -> None:
        try:
            jms_classes()
        except OSError as error:
            raise Missing(str(error)) from error

    def version(self) -> str:
        return package_version("activemq")

    def command(self) -> list[str]:
        java = ["java", "-Xms1g", "-Xmx1g", "-cp", jms_classes()]
        return [*java, "ActiveMq", str(self.directory), str(self.port), "periodic"]
