package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type tiles struct{ site string }

func (tiles) Height() int                           { return 8 }
func (tiles) SaveTiles([]tlog.Tile, [][]byte)       {}
func (t tiles) ReadTiles(all []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, each := range all {
		path := strings.Replace(each.Path(), "tile/8/", "tile/", 1)
		data, err := os.ReadFile(filepath.Join(t.site, filepath.FromSlash(path)))
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	site, vkey, skey := os.Args[1], os.Args[2], os.Args[3]
	verifier := must(note.NewVerifier(vkey))
	data := must(os.ReadFile(filepath.Join(site, "checkpoint")))
	checkpoint, _, _, err := log.ParseCheckpoint(data, verifier.Name(), verifier)
	if err != nil {
		panic(err)
	}
	size := int64(checkpoint.Size)
	tree := tlog.Tree{N: size, Hash: tlog.Hash(checkpoint.Hash)}
	reader := tlog.TileHashReader(tree, tiles{site})
	var leaves []tlog.Hash
	for start := int64(0); start < size; start += 256 {
		tile := tlog.Tile{H: 8, L: -1, N: start / 256, W: int(min(256, size-start))}
		path := strings.Replace(tile.Path(), "tile/8/data/", "tile/entries/", 1)
		bundle := must(os.ReadFile(filepath.Join(site, filepath.FromSlash(path))))
		for len(bundle) > 0 {
			end := 2 + int(binary.BigEndian.Uint16(bundle))
			leaves = append(leaves, tlog.RecordHash(bundle[2:end]))
			bundle = bundle[end:]
		}
	}
	if int64(len(leaves)) != size {
		panic("entries are missing")
	}
	for index, leaf := range leaves {
		proof := must(tlog.ProveRecord(size, int64(index), reader))
		if err := tlog.CheckRecord(proof, size, tree.Hash, int64(index), leaf); err != nil {
			panic(err)
		}
	}
	for before := int64(1); before <= size; before++ {
		old := must(tlog.TreeHash(before, reader))
		proof := must(tlog.ProveTree(size, before, reader))
		if err := tlog.CheckTree(proof, size, tree.Hash, before, old); err != nil {
			panic(err)
		}
	}
	signer := must(note.NewSigner(skey))
	text := log.Checkpoint{Origin: signer.Name(), Size: checkpoint.Size, Hash: checkpoint.Hash}.Marshal()
	fmt.Print(string(must(note.Sign(&note.Note{Text: string(text)}, signer))))
}
