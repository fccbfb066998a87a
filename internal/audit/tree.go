package audit

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Tiles of height 8, as tlog has them: tile n of level l holds the hashes of 256
// whole subtrees of 256^l leaves. A tile is stored once, however full.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	placeBytes = 16
)

// place is where a leaf lies in audit_ordered: its transaction and its number.
type place struct{ xid, n int64 }

func (p place) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.xid))
	return binary.BigEndian.AppendUint64(b, uint64(p.n))
}

// tile is a row of audit_tile.
type tile struct {
	level, n       int64
	hashes, places []byte // places on level 0 alone
}

// tree is the right edge of a tenant's Merkle tree: of each level the tile that
// isn't full. That is all it takes to append and to know the root.
type tree struct {
	size  int64
	edges []tile
	full  func(tile) // is given each tile that fills up
}

// append adds a leaf's hash.
func (t *tree) append(h tlog.Hash, p place) {
	t.size++
	t.push(0, h, p)
}

func (t *tree) push(level int, h tlog.Hash, p place) {
	if level == len(t.edges) {
		t.edges = append(t.edges, tile{level: int64(level)})
	}
	e := &t.edges[level]
	e.hashes = append(e.hashes, h[:]...)
	if level == 0 {
		e.places = p.append(e.places)
	}
	if len(e.hashes) < tileWidth*tlog.HashSize {
		return
	}
	done := *e
	*e = tile{level: int64(level), n: done.n + 1}
	t.full(done)
	t.push(level+1, subtree(done.hashes), place{})
}

// partial answers the tiles that are neither full nor empty.
func (t *tree) partial() []tile {
	var all []tile
	for _, e := range t.edges {
		if len(e.hashes) > 0 {
			all = append(all, e)
		}
	}
	return all
}

// root answers the tree's head. Whole subtrees are joined from the right, the
// smallest first.
func (t *tree) root() tlog.Hash {
	var root tlog.Hash
	found := false
	for _, e := range t.edges {
		for end, w := len(e.hashes), len(e.hashes)/tlog.HashSize; w > 0; w &= w - 1 {
			start := end - (w&-w)*tlog.HashSize
			h := subtree(e.hashes[start:end])
			if found {
				h = tlog.NodeHash(h, root)
			}
			root, found, end = h, true, start
		}
	}
	if !found {
		root, _ = tlog.TreeHash(0, nil)
	}
	return root
}

// subtree answers the root over a power of two of hashes.
func subtree(hashes []byte) tlog.Hash {
	if len(hashes) == tlog.HashSize {
		return tlog.Hash(hashes)
	}
	half := len(hashes) / 2
	return tlog.NodeHash(subtree(hashes[:half]), subtree(hashes[half:]))
}

// head is a row of audit_tree.
type head struct {
	tenant string
	size   int64
	root   tlog.Hash
}

// heads reads every tenant's head.
func heads(tx *store.Tx) (map[string]head, error) {
	rows, err := tx.Query("select tenant, size, root from audit_tree order by tenant")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]head{}
	for rows.Next() {
		var h head
		var root []byte
		if err := rows.Scan(&h.tenant, &h.size, &root); err != nil {
			return nil, err
		}
		if len(root) != tlog.HashSize || h.size < 0 || h.size > maxSize {
			return nil, fmt.Errorf("tree head of %s: %w", h.tenant, refusal.Tampered)
		}
		h.root = tlog.Hash(root)
		all[h.tenant] = h
	}
	return all, rows.Err()
}

// loadTree reads the right edge of a tenant's tree of h's size, and holds it to
// h's root: what is appended to a broken tree would hide the break.
func loadTree(tx *store.Tx, h head) (*tree, error) {
	t := &tree{size: h.size}
	for level, n := int64(0), h.size; n > 0; level, n = level+1, n>>tileHeight {
		e := tile{level: level, n: n >> tileHeight}
		if width := int(n % tileWidth); width > 0 {
			stored, err := loadTile(tx, h.tenant, level, e.n)
			if err != nil {
				return nil, err
			}
			if len(stored.hashes) != width*tlog.HashSize || level == 0 && len(stored.places) != width*placeBytes {
				return nil, fmt.Errorf("tile %d/%d of %s: %w", level, e.n, h.tenant, refusal.Tampered)
			}
			e = stored
		}
		t.edges = append(t.edges, e)
	}
	if h.size > 0 && t.root() != h.root {
		return nil, fmt.Errorf("tree of %s: %w: its tiles don't make its head; run `chaperone audit verify`", h.tenant, refusal.Tampered)
	}
	return t, nil
}

func loadTile(tx *store.Tx, tenant string, level, n int64) (tile, error) {
	t := tile{level: level, n: n}
	err := tx.QueryRow("select hashes, places from audit_tile where tenant=$1 and level=$2 and n=$3", tenant, level, n).Scan(&t.hashes, &t.places)
	if err != nil {
		return tile{}, fmt.Errorf("tile %d/%d of %s: %w", level, n, tenant, err)
	}
	return t, nil
}

// stored reads a tenant's hashes for proofs.
type stored struct {
	tx     *store.Tx
	tenant string
	tiles  map[[2]int64][]byte
}

func storedHashes(tx *store.Tx, tenant string) *stored {
	return &stored{tx, tenant, map[[2]int64][]byte{}}
}

// ReadHashes is tlog.HashReader.
func (s *stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		at := tlog.TileForIndex(tileHeight, index)
		key := [2]int64{int64(at.L), at.N}
		data, there := s.tiles[key]
		if !there {
			t, err := loadTile(s.tx, s.tenant, key[0], key[1])
			if err != nil {
				return nil, err
			}
			data, s.tiles[key] = t.hashes, t.hashes
		}
		at.W = len(data) / tlog.HashSize
		if at.W == 0 || at.W > tileWidth {
			return nil, fmt.Errorf("tile %d/%d of %s: %w", at.L, at.N, s.tenant, refusal.Tampered)
		}
		h, err := tlog.HashFromTile(at, data[:at.W*tlog.HashSize], index)
		if err != nil {
			return nil, fmt.Errorf("tile %d/%d of %s: %w: %v", at.L, at.N, s.tenant, refusal.Tampered, err)
		}
		out = append(out, h)
	}
	return out, nil
}
