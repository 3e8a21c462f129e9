package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// checkPages reads a whole bbolt file and checks everything that bbolt assumes, so that bbolt never opens a damaged file. On
// a damaged file bbolt panics, sometimes in its own goroutines, where nobody can recover the panic. If the newest head page
// is damaged, bbolt falls back to the previous transaction, and the store would forget a vote.
//
// No process may write to the file during the check. where is the place of the damage.
func checkPages(file io.ReaderAt, size int64) (where string, err error) {
	c := pageChecker{file: file}
	if err := c.readHeads(); err != nil {
		return "its head", err
	}
	if need := int64(c.head.pages) * c.pageBytes; c.head.pages > uint64(size) || need > size {
		return fmt.Sprintf("byte %d", size),
			fmt.Errorf("cut short: %d pages of %d bytes are in use", c.head.pages, c.pageBytes)
	}
	if c.head.freelist != noFreelist {
		return "its head", errFreelist
	}
	c.seen = make([]bool, c.head.pages)
	c.seen[0], c.seen[1] = true, true
	if err := c.walk(c.head.root, keyRange{}, 0, true); err != nil {
		return fmt.Sprintf("page %d", c.at), err
	}
	return "", nil
}

// errFreelist shows that another program has written to the file.
var errFreelist = errors.New("it names a list of free pages, which no store does")

// The layout of a bbolt file, version 2. Numbers are in the byte order of the machine.
const (
	pageHeaderBytes  = 16 // id uint64 | kind uint16 | count uint16 | overflow uint32
	elementBytes     = 16 // branch: pos, key size uint32, page uint64; leaf: flags, pos, key size, value size uint32
	bucketBytes      = 16 // root page uint64 | sequence uint64; root page 0: the page follows, inline
	headBytes        = 64
	headMagic        = 0xED0CDAED
	headVersion      = 2
	noFreelist       = 1<<64 - 1
	kindBranch       = 1
	kindLeaf         = 2
	elementIsBucket  = 1
	keyBytesMax      = 32 << 10
	pageBytesMin     = 1 << 10
	pageBytesMax     = 64 << 10
	treeDepthMax     = 32
	headPagesMin     = 4
	headChecksumFrom = headBytes - 8
)

var native = binary.NativeEndian

type pageChecker struct {
	file      io.ReaderAt
	pageBytes int64
	head      pageHead
	seen      []bool   // by page: already found in use
	at        uint64   // page that is being checked
	buffers   [][]byte // one for each depth of the tree
}

// pageHead is the content of a head page ("meta" in bbolt).
type pageHead struct {
	root, freelist, pages, transaction uint64
}

// keyRange is a range of keys. It includes from, and ends just before below. If a bound is nil, the range has no such bound.
type keyRange struct{ from, below []byte }

// readHeads reads both head pages. Both must be sound. Each transaction overwrites the older of the two pages, so a damaged
// page may be the newest.
func (c *pageChecker) readHeads() error {
	first, pageBytes, err := c.readHead(0)
	if err != nil {
		return fmt.Errorf("first head page: %w", err)
	}
	second, alike, err := c.readHead(pageBytes)
	if err != nil {
		return fmt.Errorf("second head page: %w", err)
	}
	if alike != pageBytes {
		return fmt.Errorf("pages of %d and of %d bytes", pageBytes, alike)
	}
	c.head, c.pageBytes = first, pageBytes
	older := second
	if second.transaction > first.transaction {
		c.head, older = second, first
	}
	if c.head.transaction != older.transaction+1 || first.transaction%2 != 0 {
		return fmt.Errorf("transactions %d and %d: one was lost, or written to the place of the other",
			first.transaction, second.transaction)
	}
	if c.head.pages < headPagesMin {
		return fmt.Errorf("%d pages in use; the least is %d", c.head.pages, headPagesMin)
	}
	return nil
}

func (c *pageChecker) readHead(offset int64) (h pageHead, pageBytes int64, err error) {
	var b [headBytes]byte
	if _, err := c.file.ReadAt(b[:], offset+pageHeaderBytes); err != nil {
		return h, 0, fmt.Errorf("reading it: %w", err)
	}
	if magic, version := native.Uint32(b[0:]), native.Uint32(b[4:]); magic != headMagic || version != headVersion {
		return h, 0, fmt.Errorf("magic number %08x and version %d, not %08x and %d", magic, version, uint32(headMagic), headVersion)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:headChecksumFrom])
	if native.Uint64(b[headChecksumFrom:]) != sum.Sum64() {
		return h, 0, errChecksum
	}
	pageBytes = int64(native.Uint32(b[8:]))
	if pageBytes < pageBytesMin || pageBytes > pageBytesMax || pageBytes&(pageBytes-1) != 0 {
		return h, 0, fmt.Errorf("pages of %d bytes", pageBytes)
	}
	return pageHead{
		root: native.Uint64(b[16:]), freelist: native.Uint64(b[32:]),
		pages: native.Uint64(b[40:]), transaction: native.Uint64(b[48:]),
	}, pageBytes, nil
}

// walk checks the tree below a page. In the top tree the values are buckets. In the tree of a bucket they are not.
func (c *pageChecker) walk(id uint64, keys keyRange, depth int, top bool) error {
	if depth == treeDepthMax {
		return fmt.Errorf("a tree of more than %d levels", treeDepthMax)
	}
	page, err := c.read(id, depth)
	if err != nil {
		return err
	}
	switch kind := native.Uint16(page[8:]); kind {
	case kindBranch:
		return c.walkBranch(page, keys, depth, top)
	case kindLeaf:
		return c.walkLeaf(page, keys, depth, top)
	default:
		return fmt.Errorf("a page of kind %#x within a tree", kind)
	}
}

// read returns a page with its overflow pages. It checks the number and the place of these pages.
func (c *pageChecker) read(id uint64, depth int) ([]byte, error) {
	if id >= c.head.pages {
		return nil, fmt.Errorf("it refers to page %d; %d are in use", id, c.head.pages)
	}
	c.at = id
	var header [pageHeaderBytes]byte
	if _, err := c.file.ReadAt(header[:], int64(id)*c.pageBytes); err != nil {
		return nil, err
	}
	if got := native.Uint64(header[0:]); got != id {
		return nil, fmt.Errorf("it says that it is page %d", got)
	}
	pages := uint64(native.Uint32(header[12:])) + 1
	if pages > c.head.pages-id {
		return nil, fmt.Errorf("it takes %d pages; the file has %d from there on", pages, c.head.pages-id)
	}
	for i := id; i < id+pages; i++ {
		if c.seen[i] {
			return nil, fmt.Errorf("page %d is in use twice", i)
		}
		c.seen[i] = true
	}
	page := c.buffer(depth, int(pages)*int(c.pageBytes))
	_, err := c.file.ReadAt(page, int64(id)*c.pageBytes)
	return page, err
}

// buffer returns a buffer for a page. The next page at the same depth reuses the buffer.
func (c *pageChecker) buffer(depth, size int) []byte {
	for len(c.buffers) <= depth {
		c.buffers = append(c.buffers, nil)
	}
	if cap(c.buffers[depth]) < size {
		c.buffers[depth] = make([]byte, size)
	}
	return c.buffers[depth][:size]
}

func (c *pageChecker) walkBranch(page []byte, keys keyRange, depth int, top bool) error {
	count := int(native.Uint16(page[10:]))
	if count == 0 {
		return errors.New("a branch without a child")
	}
	at := c.at
	for i := range count {
		c.at = at
		child := keyRange{below: keys.below}
		var err error
		if child.from, err = branchKey(page, i); err != nil {
			return err
		}
		if i+1 < count {
			if child.below, err = branchKey(page, i+1); err != nil {
				return err
			}
		}
		if err := keys.admit(child.from); err != nil {
			return err
		}
		if err := c.walk(native.Uint64(page[pageHeaderBytes+i*elementBytes+8:]), child, depth+1, top); err != nil {
			return err
		}
		keys.from = child.below
	}
	return nil
}

func branchKey(page []byte, i int) ([]byte, error) {
	at := pageHeaderBytes + i*elementBytes
	if at+elementBytes > len(page) {
		return nil, fmt.Errorf("element %d lies outside the page", i)
	}
	return within(page, i, uint64(at)+uint64(native.Uint32(page[at:])), uint64(native.Uint32(page[at+4:])))
}

// within returns the given bytes of the page. If they lie outside the page, the error names element i.
func within(page []byte, i int, from, size uint64) ([]byte, error) {
	if from+size > uint64(len(page)) {
		return nil, fmt.Errorf("element %d lies outside the page", i)
	}
	return page[from : from+size], nil
}

func (c *pageChecker) walkLeaf(page []byte, keys keyRange, depth int, top bool) error {
	var before []byte
	for i := range int(native.Uint16(page[10:])) {
		at := pageHeaderBytes + i*elementBytes
		if at+elementBytes > len(page) {
			return fmt.Errorf("element %d lies outside the page", i)
		}
		flags, pos := native.Uint32(page[at:]), uint64(native.Uint32(page[at+4:]))
		keySize, valueSize := native.Uint32(page[at+8:]), native.Uint32(page[at+12:])
		element, err := within(page, i, uint64(at)+pos, uint64(keySize)+uint64(valueSize))
		if err != nil {
			return err
		}
		key, value := element[:keySize], element[keySize:]
		if err := keys.admit(key); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if bytes.Compare(before, key) >= 0 {
			return fmt.Errorf("element %d: key %s is out of order", i, shown(key))
		}
		before = key
		if top != (flags == elementIsBucket) || !top && flags != 0 {
			return fmt.Errorf("element %d has the flags %#x", i, flags)
		}
		if !top {
			continue
		}
		if err := c.walkBucket(value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// walkBucket checks a bucket. A bucket has a tree of pages, or holds one page inline.
func (c *pageChecker) walkBucket(bucket []byte, depth int) error {
	if len(bucket) < bucketBytes {
		return fmt.Errorf("a bucket of %d bytes", len(bucket))
	}
	if root := native.Uint64(bucket); root != 0 {
		at := c.at
		err := c.walk(root, keyRange{}, depth, false)
		if err == nil {
			c.at = at
		}
		return err
	}
	page := bucket[bucketBytes:]
	if len(page) < pageHeaderBytes || native.Uint16(page[8:]) != kindLeaf {
		return errors.New("an inline bucket that is no leaf")
	}
	return c.walkLeaf(page, keyRange{}, depth, false)
}

// keyBytesShown is how many bytes of a key an error shows. A damaged size may make a key very long, because the key then
// includes the bytes after it.
const keyBytesShown = 16

// shown formats a key, or its beginning, for an error.
func shown(key []byte) string {
	if len(key) <= keyBytesShown {
		return fmt.Sprintf("%x", key)
	}
	return fmt.Sprintf("%x... of %d bytes", key[:keyBytesShown], len(key))
}

// admit returns an error if the key lies outside the range, or if no store can have written it.
func (r keyRange) admit(key []byte) error {
	if len(key) == 0 || len(key) > keyBytesMax {
		return fmt.Errorf("a key of %d bytes", len(key))
	}
	if bytes.Compare(key, r.from) < 0 || r.below != nil && bytes.Compare(key, r.below) >= 0 {
		return fmt.Errorf("key %s is out of order", shown(key))
	}
	return nil
}
