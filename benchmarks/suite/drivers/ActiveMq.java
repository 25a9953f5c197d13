import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/** ActiveMQ with its default store, KahaDB:  java ActiveMq DIRECTORY PORT [always|periodic]
 *
 *  periodic: its journal is synced once a second, so it does not pay for an fsync that Kafka and tidelog do not make.
 */
public class ActiveMq {
    public static void main(String[] a) throws Exception {
        BrokerService broker = new BrokerService();
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new java.io.File(a[0], "kahadb"));
        store.setJournalDiskSyncStrategy(a.length > 2 ? a[2] : "periodic");
        broker.setDataDirectory(a[0]);
        broker.setPersistenceAdapter(store);
        broker.setUseJmx(false);
        broker.setAdvisorySupport(false);
        broker.addConnector("tcp://127.0.0.1:" + a[1]);
        broker.getSystemUsage().getStoreUsage().setLimit(50L << 30);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("ready " + BrokerService.class.getPackage().getImplementationVersion());
        broker.waitUntilStopped();
    }
}
