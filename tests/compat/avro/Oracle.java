import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** For each line "reader TAB writer": what Avro says of the pair, and how it writes the two schemas itself. */
public class Oracle {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] texts = line.split("\t");
      out.println(answer(texts[0], texts[1]));
    }
    out.flush();
  }

  private static String answer(String readerText, String writerText) {
    try {
      Schema reader = new Schema.Parser().parse(readerText);
      Schema writer = new Schema.Parser().parse(writerText);
      boolean compatible =
          SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType()
              == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE;
      return (compatible ? "yes" : "no") + "\t" + reader + "\t" + writer;
    } catch (AvroRuntimeException error) {
      return "refused\t\t";
    }
  }
}
