package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Types of messages that are only forwarded.
const (
	messagePause  = 6
	messageResume = 7
)

// Opcodes of frames (RFC 6455 §5.2).
const (
	opContinuation = 0
	opBinary       = 2
	opClose        = 8
	opPing         = 9
)

// message encodes a message of a session, as remotedialer does.
func message(connection, kind int64, body string) []byte {
	out := binary.AppendVarint(nil, math.MaxInt64/3)
	out = binary.AppendVarint(out, connection)
	out = binary.AppendVarint(out, kind)
	if kind == messageData || kind == messageConnect {
		out = binary.AppendVarint(out, 15000)
	}
	return append(out, body...)
}

// frame encodes a WebSocket frame. A mask makes it a client's frame.
func frame(opcode byte, final bool, mask, payload []byte) []byte {
	if final {
		opcode |= 0x80
	}
	var masked byte
	if mask != nil {
		masked = 0x80
	}
	out := []byte{opcode}
	switch n := len(payload); {
	case n < 126:
		out = append(out, masked|byte(n))
	case n <= math.MaxUint16:
		out = binary.BigEndian.AppendUint16(append(out, masked|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, masked|127), uint64(n))
	}
	out = append(out, mask...)
	for i, b := range payload {
		if mask != nil {
			b ^= mask[i%4]
		}
		out = append(out, b)
	}
	return out
}

// seen is what an Inspector reported.
type seen struct {
	Bytes  map[int64]int
	Closed []int64
	Err    string
}

// inspect passes the parts to one Inspector, and returns its reports and the resulting bytes.
func inspect(parts ...[]byte) (seen, []byte) {
	told := seen{Bytes: map[int64]int{}}
	inspector := &Inspector{
		Data:    func(connection int64, n int) { told.Bytes[connection] += n },
		Closing: func(connection int64) { told.Closed = append(told.Closed, connection) },
	}
	var out []byte
	for _, part := range parts {
		part = slices.Clone(part)
		err := inspector.Inspect(part)
		out = append(out, part...)
		if err != nil {
			told.Err = err.Error()
			break
		}
	}
	return told, out
}

// conversation is a valid sequence from an agent, with messages of every kind in frames of every form.
func conversation(mask []byte) []byte {
	long := message(300, messageData, strings.Repeat("x", 200))
	return slices.Concat(
		frame(opBinary, true, mask, message(2, messageData, "hello")),
		frame(opPing, true, mask, nil),
		frame(opBinary, true, mask, message(2, messageData, "")),
		frame(opBinary, true, mask, message(-7, messageData, "negative")),
		// One message in three frames. The first frame ends within a number. A ping in between has a payload that looks
		// like a message.
		frame(opBinary, false, mask, long[:11]),
		frame(opPing, true, mask, message(9, messageConnect, "tcp/anywhere")),
		frame(opContinuation, false, mask, long[11:100]),
		frame(opContinuation, false, mask, nil),
		frame(opContinuation, true, mask, long[100:]),
		frame(opBinary, true, mask, message(2, messagePause, "")),
		frame(opBinary, true, mask, message(2, messageResume, "")),
		frame(opBinary, true, mask, message(2, messageError, "EOF")),
		frame(opBinary, true, mask, message(3, 77, "of a later version")),
		frame(opBinary, true, mask, message(300, messageError, strings.Repeat("long", 20_000))),
		frame(opClose, true, mask, []byte{0x03, 0xe8}),
	)
}

var masks = map[string][]byte{
	"with the mask of a client":                   {0x37, 0xfa, 0x21, 0x3d},
	"with a mask of zeros":                        {0, 0, 0, 0},
	"with a mask that sets the continuation bits": {0x80, 0x80, 0x80, 0x80},
	"without a mask, as from a server":            nil,
}

func TestInspector_FollowsSplitMessages(t *testing.T) {
	want := seen{Bytes: map[int64]int{2: 5, -7: 8, 300: 200}, Closed: []int64{2, 300}}
	for name, mask := range masks {
		t.Run(name, func(t *testing.T) {
			sent := conversation(mask)
			check := func(where string, parts ...[]byte) {
				t.Helper()
				got, out := inspect(parts...)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", where, diff)
				}
				if !bytes.Equal(out, sent) {
					t.Fatalf("%s: the content was changed", where)
				}
			}
			check("in one piece", sent)
			check("byte by byte", slices.Collect(slices.Chunk(sent, 1))...)
			// The last message is long and uniform.
			for at := range len(sent) - 80_000 {
				check(fmt.Sprintf("cut at %d", at), sent[:at], nil, sent[at:])
			}
		})
	}
}

func TestInspector_ListsOfConnectionsAreNeutralized(t *testing.T) {
	list := string(binary.LittleEndian.AppendUint64(nil, 2))
	for name, mask := range masks {
		t.Run(name, func(t *testing.T) {
			sent := frame(opBinary, true, mask, message(0, messageSync, list))
			want := frame(opBinary, true, mask, message(0, 9, list)) // an unknown type
			for at := range sent {
				got, out := inspect(sent[:at], sent[at:])
				if diff := cmp.Diff(seen{Bytes: map[int64]int{}}, got); diff != "" {
					t.Fatalf("split at %d (-want +got):\n%s", at, diff)
				}
				if diff := cmp.Diff(want, out); diff != "" {
					t.Fatalf("split at %d, content (-want +got):\n%s", at, diff)
				}
			}
		})
	}
}

// A number with redundant bytes is recognized as the same number.
func TestInspector_DisguisedListsAreNeutralized(t *testing.T) {
	for longer := range 9 {
		kind := []byte{messageSync << 1}
		for range longer {
			kind[len(kind)-1] |= 0x80
			kind = append(kind, 0)
		}
		if number, n := binary.Varint(kind); number != messageSync || n != len(kind) {
			t.Fatalf("%x is %d in %d bytes: not a list", kind, number, n)
		}
		head := binary.AppendVarint(binary.AppendVarint(nil, 1), 0)
		_, out := inspect(frame(opBinary, true, nil, append(slices.Clone(head), kind...)))
		number, n := binary.Varint(out[2+len(head):])
		if n > 0 && number >= messageData && number <= messageSync {
			t.Errorf("with %d bytes more, the type becomes %d, which is a known type", longer, number)
		}
	}
}

func TestInspector_EndsForbiddenMessages(t *testing.T) {
	endless := bytes.Repeat([]byte{0x80}, 11)
	for name, test := range map[string]struct{ sent, want string }{
		"the agent dials": {
			string(frame(opBinary, true, nil, message(1, messageConnect, "tcp/127.0.0.1:22"))), "asked to dial"},
		"the agent adds a client": {
			string(frame(opBinary, true, nil, message(1, messageAddClient, "c-m-1/1"))), "sent a list of connections"},
		"the agent removes a client": {
			string(frame(opBinary, true, nil, message(1, messageRemoveClient, "c-m-1/1"))),
			"sent a list of connections"},
		"a number of more than 64 bits": {string(frame(opBinary, true, nil, endless)), "does not speak"},
		"a number continues in the next frame": {string(frame(opBinary, false, nil, endless[:6])) +
			string(frame(opContinuation, true, nil, endless[6:])), "does not speak"},
		"a frame above the limit": {string([]byte{0x82, 127, 0, 0, 0, 0, 0, 0x40, 0, 1}), "does not speak"},
		"a frame length above 63 bits": {string(append([]byte{0x82, 127}, bytes.Repeat([]byte{0xff}, 8)...)),
			"does not speak"},
		"a ping above the limit": {string(append([]byte{0x89, 127}, bytes.Repeat([]byte{0x7f}, 8)...)),
			"does not speak"},
		"HTTP instead of the protocol": {"GET / HTTP/1.1\r\nHost: drover.example.com\r\n\r\n" +
			strings.Repeat("\xff", 200), "does not speak"},
		"a text message": {string(frame(1, true, nil, message(1, messageConnect, "tcp/127.0.0.1:22"))),
			"asked to dial"},
	} {
		t.Run(name, func(t *testing.T) {
			whole, _ := inspect([]byte(test.sent))
			if !strings.Contains(whole.Err, test.want) {
				t.Errorf("error is %q, want it to contain %q", whole.Err, test.want)
			}
			byByte, _ := inspect(slices.Collect(slices.Chunk([]byte(test.sent), 1))...)
			if diff := cmp.Diff(whole, byByte); diff != "" {
				t.Errorf("in one piece (-) and byte by byte (+):\n%s", diff)
			}
		})
	}
}

func TestInspector_AcceptsTheLongestFrame(t *testing.T) {
	head := message(2, messageData, "")
	sent := frame(opBinary, true, nil, append(head, make([]byte, MaxMessage-len(head))...))
	got, _ := inspect(sent)
	if diff := cmp.Diff(seen{Bytes: map[int64]int{2: MaxMessage - len(head)}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInspector_StoresNoContent(t *testing.T) {
	sent := frame(opBinary, true, []byte("mask"), message(2, messageData, strings.Repeat("x", 32<<10)))
	total := 0
	inspector := &Inspector{Data: func(_ int64, n int) { total += n }}
	if allocations := testing.AllocsPerRun(100, func() {
		if err := inspector.Inspect(sent); err != nil {
			t.Fatal(err)
		}
	}); allocations > 0 {
		t.Errorf("%g allocations for each message, want none", allocations)
	}
	if want := 101 * 32 << 10; total != want {
		t.Errorf("%d bytes were counted, want %d", total, want)
	}
}

// drawMessage draws a valid message, with numbers of every length.
func drawMessage(t *rapid.T) []byte {
	kind := rapid.SampledFrom([]int64{messageData, messageData, messageError, messagePause, messageResume, 9, 77,
		-1}).Draw(t, "type")
	return message(rapid.Int64().Draw(t, "connection"), kind, rapid.StringN(0, 300, 1000).Draw(t, "body"))
}

func TestInspector_NeverChangesContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []byte
		for range rapid.IntRange(1, 5).Draw(t, "messages") {
			mask := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "mask")
			payload := drawMessage(t)
			at := rapid.IntRange(0, len(payload)).Draw(t, "end of its first frame")
			sent = append(sent, frame(opBinary, false, mask, payload[:at])...)
			sent = append(sent, frame(opContinuation, true, mask, payload[at:])...)
		}
		whole, out := inspect(sent)
		if whole.Err != "" {
			t.Fatalf("ended: %s", whole.Err)
		}
		if !bytes.Equal(sent, out) {
			t.Fatal("the content was changed")
		}
		size := rapid.IntRange(1, len(sent)).Draw(t, "bytes at once")
		pieces, out := inspect(slices.Collect(slices.Chunk(sent, size))...)
		if !bytes.Equal(sent, out) {
			t.Fatal("the content in pieces was changed")
		}
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("in one piece (-) and in pieces (+):\n%s", diff)
		}
	})
}

func FuzzInspector(f *testing.F) {
	f.Add(conversation([]byte{1, 2, 3, 4}), uint8(3))
	f.Add(frame(opBinary, true, nil, message(0, messageSync, "12345678")), uint8(1))
	f.Add(frame(opBinary, true, nil, message(1, messageConnect, "tcp/127.0.0.1:22")), uint8(2))
	f.Fuzz(func(t *testing.T, sent []byte, size uint8) {
		whole, out := inspect(sent)
		altered := 0
		for i := range out {
			if out[i] != sent[i] {
				altered++
				if out[i] != sent[i]^ignored {
					t.Errorf("byte %d was %#x and became %#x", i, sent[i], out[i])
				}
			}
		}
		total := 0
		for _, n := range whole.Bytes {
			total += n
		}
		if total+altered > len(sent) {
			t.Errorf("%d bytes of data and %d changed bytes, of %d", total, altered, len(sent))
		}
		pieces, again := inspect(slices.Collect(slices.Chunk(sent, int(size)+1))...)
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("in one piece (-) and in pieces (+):\n%s", diff)
		}
		if !bytes.Equal(out[:min(len(out), len(again))], again[:min(len(out), len(again))]) {
			t.Error("splitting changes the result")
		}
	})
}
