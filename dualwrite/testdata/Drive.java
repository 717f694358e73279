import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.SortedMap;
import java.util.TreeMap;

/** Drives Rows of examples/dualwrite: it decides about the vectors on stdin, whose fields are lines. */
final class Drive {
  private SortedMap<String, Rows.Value> old;
  private SortedMap<String, Rows.Value> item;
  private long at;
  private String fence;
  private BigInteger remembered;

  public static void main(String[] args) {
    List<String> decisions = new ArrayList<>();
    Drive vector = new Drive();
    for (Scanner in = new Scanner(System.in, java.nio.charset.StandardCharsets.UTF_8); in.hasNextLine(); ) {
      String[] fields = in.nextLine().split("\t", -1);
      if (fields[0].equals("end")) {
        decisions.add(vector.decide());
        vector = new Drive();
      } else {
        vector.take(fields);
      }
    }
    System.out.println("[" + String.join(",", decisions) + "]");
  }

  private void take(String[] fields) {
    switch (fields[0]) {
      case "old" -> old = with(old, fields);
      case "new" -> item = with(item, fields);
      case "at" -> at = Long.parseLong(fields[1]);
      case "fence" -> fence = fields[1];
      case "remembered" -> remembered = new BigInteger(fields[1]);
      default -> throw new IllegalArgumentException(fields[0]);
    }
  }

  private static SortedMap<String, Rows.Value> with(SortedMap<String, Rows.Value> item, String[] fields) {
    SortedMap<String, Rows.Value> all = item == null ? new TreeMap<>() : item;
    all.put(fields[1], new Rows.Value(fields[2], fields[3]));
    return all;
  }

  private String decide() {
    SortedMap<String, Rows.Value> read = new TreeMap<>(item == null ? old : item);
    read.remove(Rows.ATTRIBUTE);
    if (old != null && old.containsKey(Rows.ATTRIBUTE)) {
      read.put(Rows.ATTRIBUTE, old.get(Rows.ATTRIBUTE));
    }
    String number = item == null ? "" : Rows.nextNumber(read, at / 1000, remembered).toString();
    return "{\"requests\":[" + String.join(",", Rows.requests(old, item, at, fence)) + "],\"number\":\"" + number
        + "\",\"condition\":\"" + Rows.condition(read) + "\"}";
  }
}
