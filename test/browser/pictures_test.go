package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

const (
	pictures     = "../../docs/images"
	pictureBytes = 80 << 10
	allBytes     = 800 << 10
)

// shots are the pictures of the documentation.
var shots = []struct {
	name, state, scheme string
	width               int64
	stale               bool
}{
	{"page-copy", "copy", "light", desk, false},
	{"page-in-sync", "in-sync", "light", desk, false},
	{"page-gap", "gap", "light", desk, false},
	{"page-paused", "paused", "light", desk, false},
	{"page-parked", "parked", "light", desk, false},
	{"page-cutover", "cutover", "light", desk, false},
	{"page-done", "done", "light", desk, false},
	{"page-relay", "relay", "light", desk, false},
	{"page-stale", "in-sync", "light", desk, true},
	{"page-dark", "copy", "dark", desk, false},
	{"page-phone", "gap", "light", phone, false},
	{"page-phone-dark", "copy", "dark", phone, false},
}

// The documentation shows each state in pictures. With -update this test makes them. It does not
// compare pixels, because fonts differ.
func TestPictures(t *testing.T) {
	t.Parallel()
	if *update {
		for _, s := range shots {
			t.Run(s.name, func(t *testing.T) {
				site, p := serve(t), open(t)
				site.showLong(documentOf(t, s.state))
				// Sets the browser's clock to the document's time.
				p.first(fmt.Sprintf(`{ const now = Date.now, off = %d - now(); Date.now = () => now() + off; }`, at.UnixMilli()))
				p.scheme(s.scheme)
				p.sized(s.width)
				p.visit(site.URL)
				p.until("live", `document.getElementById("state").textContent === "● live"`)
				if s.stale {
					site.silent.Store(true)
					p.until("stale", `document.documentElement.classList.contains("stale")`)
				}
				shot, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				small, err := reduced(shot)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(pictures, s.name+".png"), small, 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	all := int64(0)
	for _, s := range shots {
		info, err := os.Stat(filepath.Join(pictures, s.name+".png"))
		if err != nil {
			t.Fatalf("%v: go test -run TestPictures -update makes it", err)
		}
		all += info.Size()
		if info.Size() > pictureBytes {
			t.Errorf("%s has %d bytes", info.Name(), info.Size())
		}
	}
	if all > allBytes {
		t.Errorf("all pictures have %d bytes", all)
	}
}

// mostColours is enough for letters and their anti-aliased edges.
const mostColours = 28

// reduced returns a picture with its most frequent colours. Each other colour becomes the nearest
// of them.
func reduced(picture []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	bounds := full.Bounds()
	counts := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(weight(b, counts[b])-weight(a, counts[a]), int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(mostColours, len(frequent))] {
		palette = append(palette, c)
	}
	places := map[color.RGBA]uint8{}
	for c := range counts {
		places[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.Pix[small.PixOffset(x, y)] = places[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// weight returns how much a colour counts. Green and red are rare but have a meaning.
func weight(c color.RGBA, count int) int {
	return count * (16 + int(max(c.R, c.G, c.B)) - int(min(c.R, c.G, c.B)))
}
