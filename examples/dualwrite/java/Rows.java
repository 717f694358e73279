import static java.nio.charset.StandardCharsets.UTF_8;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * Computes an application's writes to Bigtable, as google.bigtable.v2 requests in JSON. It needs only the JDK.
 *
 * <p>The mapping: Orders to orders, row key {customer}#{pk}#{sk}, every attribute a column of family d, version
 * attribute rev.
 */
final class Rows {
  static final String SOURCE = "Orders";
  static final String ATTRIBUTE = "rev";
  static final String TARGET = "projects/p/instances/i/tables/orders";
  /** Replaces the fence's family while the target accepts writes without a fence. */
  static final String WITHHELD = "-";

  /** A value of DynamoDB: S, N or BOOL, and its text. */
  record Value(String kind, String text) {}

  private Rows() {}

  static String rowKey(SortedMap<String, Value> item) {
    return escaped(text(item, "customer")) + "#" + escaped(text(item, "pk")) + "#" + text(item, "sk");
  }

  private static String escaped(String part) {
    return part.replace("%", "%25").replace("#", "%23");
  }

  private static String text(SortedMap<String, Value> item, String name) {
    return item.get(name).text();
  }

  private static String origin(SortedMap<String, Value> item) {
    Base64.Encoder url = Base64.getUrlEncoder().withoutPadding();
    return SOURCE + "/S:" + url.encodeToString(text(item, "pk").getBytes(UTF_8))
        + "/S:" + url.encodeToString(text(item, "sk").getBytes(UTF_8));
  }

  static String version(BigInteger number, boolean removed) {
    int kind = removed && number.signum() > 0 ? 1 : 0;
    return String.format("n%020d.%d.%08d.%06d.%040d.%04d", number, kind, 0, 0, 0, 0);
  }

  /** The number that a write gives an item. Highest is the number that its row is known to hold, or zero. */
  static BigInteger nextNumber(SortedMap<String, Value> item, long nowMillis, BigInteger highest) {
    if (item.containsKey(ATTRIBUTE)) {
      return new BigInteger(text(item, ATTRIBUTE)).add(BigInteger.ONE);
    }
    return BigInteger.valueOf(nowMillis).max(highest.add(BigInteger.ONE));
  }

  /** The condition for DynamoDB: the item still has the number that was read (:v), or none. The attribute is #v. */
  static String condition(SortedMap<String, Value> item) {
    return item.containsKey(ATTRIBUTE) ? "#v = :v" : "attribute_not_exists(#v)";
  }

  /** The requests of a change, in their order. Null means no item. */
  static List<String> requests(
      SortedMap<String, Value> old, SortedMap<String, Value> item, long micros, String family) {
    Value number = (item != null ? item : old).get(ATTRIBUTE);
    List<String> out = new ArrayList<>();
    if (number == null) {
      return out; // only the stream writes it
    }
    String v = version(new BigInteger(number.text()), item == null);
    if (item != null) {
      List<String> mutations = new ArrayList<>(List.of(deleteFamily("d")));
      new TreeMap<>(item).forEach((name, value) -> mutations.add(setCell("d", name, value.text(), micros)));
      mutations.addAll(List.of(
          setCell("_cdc", "k", origin(item), 0), deleteColumn("_cdc_gone", "v"), setCell("_cdc", "v", v, 0)));
      out.add(guarded(rowKey(item), v, family, mutations));
    }
    if (old != null && old.containsKey("customer") && (item == null || !rowKey(old).equals(rowKey(item)))) {
      out.add(guarded(rowKey(old), v, family, List.of(
          deleteFamily("d"), deleteColumn("_cdc", "k"), deleteColumn("_cdc", "v"),
          deleteColumn("_cdc_gone", "v"), setCell("_cdc_gone", "v", v, -1))));
    }
    return out;
  }

  /** The request that is executed unless the row holds this version or a higher one. */
  private static String guarded(String row, String held, String family, List<String> mutations) {
    Stream<String> stamp =
        family.equals(WITHHELD) ? Stream.of() : Stream.of(setCell(family, "f", "", 0), deleteFamily(family));
    String looks = object(member("filters", array(Stream.of(versions("_cdc"), versions("_cdc_gone")))));
    String chain = array(Stream.of(
        object(member("interleave", looks)),
        object(member("valueRangeFilter", object(quoted("startValueClosed", b64(held)))))));
    return object(
        quoted("tableName", TARGET), quoted("appProfileId", "default"), quoted("rowKey", b64(row)),
        member("predicateFilter", object(member("chain", object(member("filters", chain))))),
        member("falseMutations", array(Stream.concat(stamp, mutations.stream()))));
  }

  private static String versions(String family) {
    return object(member("columnRangeFilter", object(quoted("familyName", family),
        quoted("startQualifierClosed", b64("v")), quoted("endQualifierOpen", b64("v\0")))));
  }

  private static String setCell(String family, String qualifier, String value, long micros) {
    List<String> cell = new ArrayList<>();
    cell.add(quoted("familyName", family));
    cell.add(quoted("columnQualifier", b64(qualifier)));
    if (micros != 0) { // JSON of protobuf omits zeros, and writes 64-bit numbers as text
      cell.add(quoted("timestampMicros", Long.toString(micros)));
    }
    if (!value.isEmpty()) {
      cell.add(quoted("value", b64(value)));
    }
    return object(member("setCell", object(cell.toArray(String[]::new))));
  }

  private static String deleteFamily(String family) {
    return object(member("deleteFromFamily", object(quoted("familyName", family))));
  }

  private static String deleteColumn(String family, String qualifier) {
    String column = object(quoted("familyName", family), quoted("columnQualifier", b64(qualifier)));
    return object(member("deleteFromColumn", column));
  }

  private static String b64(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(UTF_8));
  }

  private static String object(String... members) {
    return "{" + String.join(",", Arrays.asList(members)) + "}";
  }

  private static String array(Stream<String> elements) {
    return "[" + String.join(",", elements.toList()) + "]";
  }

  private static String member(String name, String json) {
    return "\"" + name + "\":" + json;
  }

  private static String quoted(String name, String text) { // base64 and names need no escaping
    return member(name, "\"" + text + "\"");
  }
}
