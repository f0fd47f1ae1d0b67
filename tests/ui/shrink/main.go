// Command shrink reduces the PNG pictures of a directory to 256 colours and compresses them well. Pictures of pages
// have few colours, apart from the edges of letters.
package main

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

const (
	// colours is the size of the palette, and frequent is how many of them are simply the most frequent ones.
	colours  = 256
	frequent = 64
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: shrink DIRECTORY")
		os.Exit(2)
	}
	names, err := filepath.Glob(filepath.Join(os.Args[1], "*.png"))
	for _, name := range names {
		if err == nil {
			err = shrink(name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shrink:", err)
		os.Exit(1)
	}
}

func shrink(name string) error {
	source, err := os.Open(name)
	if err != nil {
		return err
	}
	picture, err := png.Decode(source)
	source.Close()
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	target, err := os.Create(name)
	if err != nil {
		return err
	}
	defer target.Close()
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(target, reduce(picture)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return target.Close()
}

// reduce chooses colours and replaces each other one by the nearest of them.
func reduce(picture image.Image) *image.Paletted {
	bounds, counts := picture.Bounds(), map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	palette := choose(counts)
	nearest := map[color.RGBA]uint8{}
	for each := range counts {
		nearest[each] = uint8(palette.Index(each)) // a palette has at most 256 colours
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}

// choose returns a palette: the most frequent colours, and then always the colour whose pixels would change most. So a
// small icon keeps its colour.
func choose(counts map[color.RGBA]int) color.Palette {
	// Colours with the same count have a fixed order too, so that the same picture gives the same file.
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	changes := make([]int, len(all)) // from each colour to the nearest one of the palette
	for i := range changes {
		changes[i] = math.MaxInt32
	}
	add := func(chosen color.RGBA) {
		palette = append(palette, chosen)
		for i, each := range all {
			changes[i] = min(changes[i], distance(each, chosen))
		}
	}
	for _, each := range all[:min(len(all), frequent)] {
		add(each)
	}
	for len(palette) < min(len(all), colours) {
		worst := 0
		for i, each := range all {
			if changes[i]*counts[each] > changes[worst]*counts[all[worst]] {
				worst = i
			}
		}
		add(all[worst])
	}
	return palette
}

func distance(a, b color.RGBA) int {
	square := func(x, y uint8) int { return (int(x) - int(y)) * (int(x) - int(y)) }
	return square(a.R, b.R) + square(a.G, b.G) + square(a.B, b.B)
}
