package transport

import (
	"encoding/binary"
	"math"
)

// The msgpack forms of the values in a wireMessage.
const (
	msgpackFixMap = 0x80 // | the number of fields
	fixMapMax     = 0x0f
	msgpackMap16  = 0xde
	msgpackFixStr = 0xa0 // | the length
	fixStrMax     = 0x1f
	fixIntMin     = -32 // from here to fixIntMax, the byte is the number itself
	fixIntMax     = 127
	msgpackNil    = 0xc0
	msgpackTrue   = 0xc3
	msgpackBin8   = 0xc4 // 16 and 32 follow
	msgpackBin32  = 0xc6
	msgpackUint8  = 0xcc // 16, 32 and 64 follow
	msgpackUint64 = 0xcf
	msgpackInt8   = 0xd0 // 16, 32 and 64 follow
	msgpackInt64  = 0xd3
)

// fieldCodec writes or reads the fields of one message, in the order of the calls. It can read only the forms that it writes.
// If it cannot read some input, that input may still be valid msgpack.
type fieldCodec struct {
	writing bool
	buf     []byte // writing: bytes so far; reading: bytes left
	count   int    // writing: fields so far; reading: fields left after name; -1: reading failed
	name    []byte // reading: name of the field whose value comes next in buf
}

// beginFields begins to read a map of fields. It returns false if that has a form that encode does not write.
func beginFields(meta []byte) (c fieldCodec, ok bool) {
	switch {
	case len(meta) > 0 && meta[0]&^fixMapMax == msgpackFixMap:
		c = fieldCodec{buf: meta[1:], count: int(meta[0] & fixMapMax)}
	case len(meta) > 2 && meta[0] == msgpackMap16 && meta[1] == 0 && meta[2] > fixMapMax:
		c = fieldCodec{buf: meta[3:], count: int(meta[2])}
	default:
		return c, false
	}
	return c, true
}

// When reading, each of these methods reads its field only if that field comes next. When writing, it writes its field only
// if the value is not zero. Most fields are absent, so the methods are short: the compiler then inlines them.

func (c *fieldCodec) number(name string, v *uint64) {
	if string(c.name) == name || *v != 0 && c.writing {
		c.numberValue(name, v)
	}
}

func (c *fieldCodec) small(name string, v *uint8) {
	if string(c.name) == name || *v != 0 && c.writing {
		c.smallValue(name, v)
	}
}

func (c *fieldCodec) signed(name string, v *int64) {
	if string(c.name) == name || *v != 0 && c.writing {
		c.signedValue(name, v)
	}
}

func (c *fieldCodec) flag(name string, v *bool) {
	if string(c.name) == name || *v && c.writing {
		c.flagValue(name, v)
	}
}

func (c *fieldCodec) bytes(name string, v *[]byte) {
	if string(c.name) == name || len(*v) != 0 && c.writing {
		c.bytesValue(name, v)
	}
}

// These write their field even if it is zero.

func (c *fieldCodec) numberAlways(name string, v *uint64) {
	if string(c.name) == name || c.writing {
		c.numberValue(name, v)
	}
}

func (c *fieldCodec) bytesAlways(name string, v *[]byte) {
	if string(c.name) == name || c.writing {
		c.bytesValue(name, v)
	}
}

// These read or write the value.

func (c *fieldCodec) numberValue(name string, v *uint64) {
	if c.writing {
		c.putNumber(name, *v)
	} else {
		*v = c.takeNumber()
	}
}

func (c *fieldCodec) smallValue(name string, v *uint8) {
	if c.writing {
		c.putNumber(name, uint64(*v))
	} else {
		*v = c.takeSmall()
	}
}

func (c *fieldCodec) signedValue(name string, v *int64) {
	if c.writing {
		c.putSigned(name, *v)
	} else {
		*v = c.takeSigned()
	}
}

func (c *fieldCodec) flagValue(name string, v *bool) {
	if c.writing {
		c.putTrue(name)
	} else {
		*v = c.takeTrue()
	}
}

func (c *fieldCodec) bytesValue(name string, v *[]byte) {
	if c.writing {
		c.putBytes(name, *v)
	} else {
		*v = c.takeBytes(*v)
	}
}

func (c *fieldCodec) putName(name string) {
	c.count++
	c.buf = append(append(c.buf, msgpackFixStr|byte(len(name))), name...)
}

func (c *fieldCodec) putNumber(name string, v uint64) {
	c.putName(name)
	switch {
	case v <= fixIntMax:
		c.buf = append(c.buf, byte(v))
	case v <= math.MaxUint8:
		c.buf = append(c.buf, msgpackUint8, byte(v))
	case v <= math.MaxUint16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, msgpackUint8+1), uint16(v))
	case v <= math.MaxUint32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, msgpackUint8+2), uint32(v))
	default:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, msgpackUint64), v)
	}
}

// putSigned writes a number that does not fit into a single byte. Like go-msgpack, it uses a signed form, even for a positive
// number.
func (c *fieldCodec) putSigned(name string, v int64) {
	c.putName(name)
	switch {
	case v >= fixIntMin && v <= fixIntMax:
		c.buf = append(c.buf, byte(v))
	case v >= math.MinInt8 && v <= math.MaxInt8:
		c.buf = append(c.buf, msgpackInt8, byte(v))
	case v >= math.MinInt16 && v <= math.MaxInt16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, msgpackInt8+1), uint16(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, msgpackInt8+2), uint32(v))
	default:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, msgpackInt64), uint64(v))
	}
}

func (c *fieldCodec) putTrue(name string) {
	c.putName(name)
	c.buf = append(c.buf, msgpackTrue)
}

func (c *fieldCodec) putBytes(name string, v []byte) {
	c.putName(name)
	switch n := len(v); {
	case v == nil:
		c.buf = append(c.buf, msgpackNil)
	case n <= math.MaxUint8:
		c.buf = append(c.buf, msgpackBin8, byte(n))
	case n <= math.MaxUint16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, msgpackBin8+1), uint16(n))
	default:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, msgpackBin32), uint32(n))
	}
	c.buf = append(c.buf, v...)
}

// fail ends the reading: buf holds a form that the put methods do not write.
func (c *fieldCodec) fail() { c.count, c.name, c.buf = -1, nil, nil }

// complete reports whether everything was read.
func (c *fieldCodec) complete() bool { return c.count == 0 && c.name == nil && len(c.buf) == 0 }

// next reads the name of the next field.
func (c *fieldCodec) next() {
	c.name = nil
	if c.count <= 0 {
		return
	}
	if len(c.buf) == 0 || c.buf[0]&^fixStrMax != msgpackFixStr {
		c.fail()
		return
	}
	c.count--
	end := 1 + int(c.buf[0]&fixStrMax)
	if len(c.buf) < end {
		c.fail()
		return
	}
	c.name, c.buf = c.buf[1:end], c.buf[end:]
}

func (c *fieldCodec) takeByte() byte {
	if len(c.buf) == 0 {
		c.fail()
		return 0
	}
	b := c.buf[0]
	c.buf = c.buf[1:]
	return b
}

// takeBigEndian reads a number of the given size in bytes.
func (c *fieldCodec) takeBigEndian(bytes int) (v uint64) {
	if len(c.buf) < bytes {
		c.fail()
		return 0
	}
	for _, b := range c.buf[:bytes] {
		v = v<<8 | uint64(b)
	}
	c.buf = c.buf[bytes:]
	return v
}

func (c *fieldCodec) takeNumber() (v uint64) {
	switch form := c.takeByte(); {
	case form <= fixIntMax:
		v = uint64(form)
	case form >= msgpackUint8 && form <= msgpackUint64:
		v = c.takeBigEndian(1 << (form - msgpackUint8))
	default:
		c.fail()
	}
	c.next()
	return v
}

func (c *fieldCodec) takeSmall() uint8 {
	v := c.takeNumber()
	if v > math.MaxUint8 {
		c.fail()
	}
	return uint8(v)
}

func (c *fieldCodec) takeSigned() (v int64) {
	switch form := c.takeByte(); {
	case int8(form) >= fixIntMin:
		v = int64(int8(form))
	case form >= msgpackInt8 && form <= msgpackInt64:
		bytes := 1 << (form - msgpackInt8)
		unused := 64 - 8*bytes
		v = int64(c.takeBigEndian(bytes)<<unused) >> unused
	default:
		c.fail()
	}
	c.next()
	return v
}

func (c *fieldCodec) takeTrue() bool {
	if c.takeByte() != msgpackTrue {
		c.fail()
		return false
	}
	c.next()
	return true
}

// takeBytes reads bytes into room and returns room. A length of 0 is an error, because this codec never writes it.
func (c *fieldCodec) takeBytes(room []byte) []byte {
	form := c.takeByte()
	if form < msgpackBin8 || form > msgpackBin32 {
		c.fail()
		return room
	}
	n := c.takeBigEndian(1 << (form - msgpackBin8))
	if n == 0 || n > uint64(len(c.buf)) {
		c.fail()
		return room
	}
	room = append(room[:0], c.buf[:n]...)
	c.buf = c.buf[n:]
	c.next()
	return room
}
