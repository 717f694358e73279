package comparison

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// The result of a key follows from its item and from the rows to which the item maps. In a row that
// several items share, a difference of another item does not count.
func TestTheResultOfAKey(t *testing.T) {
	asked, other := enginetest.Keyed("a"), enginetest.Keyed("b")
	places := []verify.Place{{Table: "t", Row: "r", Keys: []attribute.Item{asked}}}
	in := func(kind verify.Kind, keys attribute.Item) verify.Finding {
		return verify.Finding{Table: "t", Row: "r", Kind: kind, Keys: keys}
	}
	for name, c := range map[string]struct {
		item    located
		checked verify.Checked
		result  string
		found   int
	}{
		"equal":                        {located{places: places}, verify.Checked{Equal: places}, keySame, 0},
		"absent on both sides":         {located{places: places, absent: true}, verify.Checked{Equal: places}, keySame, 0},
		"different":                    {located{places: places}, verify.Checked{Findings: []verify.Finding{in(verify.Different, asked)}}, keyDiffers, 1},
		"foreign cells":                {located{places: places}, verify.Checked{Findings: []verify.Finding{in(verify.Foreign, attribute.Item{})}}, keyDiffers, 1},
		"another item of the row":      {located{places: places}, verify.Checked{Findings: []verify.Finding{in(verify.Different, other)}}, keySame, 0},
		"a pending change":             {located{places: places}, verify.Checked{Pending: []verify.Finding{in(verify.InFlight, asked)}}, keyInFlight, 1},
		"changed at every check":       {located{places: places}, verify.Checked{}, keyInFlight, 0},
		"differs, and another waits":   {located{places: places}, verify.Checked{Findings: []verify.Finding{in(verify.Missing, asked)}, Pending: []verify.Finding{in(verify.InFlight, asked)}}, keyDiffers, 2},
		"cannot be stored":             {located{places: places, unmapped: "too long"}, verify.Checked{Equal: places}, keyParked, 0},
		"cannot be stored, a row":      {located{places: places, unmapped: "too long"}, verify.Checked{Findings: []verify.Finding{in(verify.Extra, asked)}}, keyParked, 1},
		"ignored":                      {located{places: places, ignored: true}, verify.Checked{Equal: places}, keyFiltered, 0},
		"ignored, without a row":       {located{ignored: true}, verify.Checked{}, keyFiltered, 0},
		"ignored, but it has a row":    {located{places: places, ignored: true}, verify.Checked{Findings: []verify.Finding{in(verify.Extra, asked)}}, keyDiffers, 1},
		"absent, its row is not known": {located{absent: true}, verify.Checked{}, keyUnlocated, 0},
	} {
		c.item.keys = asked
		result, reason, found := newKeyResults(enginetest.OrdersMapping(t), c.checked).of(&c.item)
		if result != c.result || len(found) != c.found || (reason != "") != (name == "changed at every check" || name == "absent on both sides" || c.item.unmapped != "") {
			t.Errorf("%s: %s (%s) with %d rows, want %s with %d", name, result, reason, len(found), c.result, c.found)
		}
	}
}

// Only same, filtered and unlocated keys let the command end with 0.
func TestTheVerdictOnKeys(t *testing.T) {
	for result, clean := range map[string]bool{keySame: true, keyFiltered: true, keyUnlocated: true, keyDiffers: false, keyInFlight: false, keyParked: false} {
		k := &keyed{of: map[string]int64{}, complete: true}
		k.add(keyResult{result: result, numberedKey: numberedKey{1, enginetest.Keyed("a")}})
		of := &table{keyed: k, mapping: enginetest.OrdersMapping(t)}
		err := (&Operator{}).keysVerdict(of)
		if d := comparedKeys(of, false); (err == nil) != clean || d.Clean != clean || d.Keys != 1 || len(d.Listed) != 1 || d.Listed[0].Key != nil {
			t.Errorf("%s: %v, %+v", result, err, d)
		}
		if k.complete = false; comparedKeys(of, false).Clean {
			t.Errorf("%s: an incomplete comparison is clean", result)
		}
	}
}
