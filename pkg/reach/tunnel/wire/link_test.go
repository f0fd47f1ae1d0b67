package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const silence = 4 * time.Second

// linked returns a watched link and the other end of its connection. Time is virtual.
func linked(t *testing.T, options LinkOptions) (*Link, net.Conn) {
	t.Helper()
	other, conn := Pipe()
	link := NewLink(conn, options)
	link.Watch(silence)
	t.Cleanup(func() {
		_ = link.Close()
		_ = other.Close()
	})
	return link, other
}

func say(t *testing.T, to io.Writer, what string) {
	t.Helper()
	if _, err := io.WriteString(to, what); err != nil {
		t.Fatal(err)
	}
}

// hear reads once and compares the result.
func hear(t *testing.T, from io.Reader, want string) {
	t.Helper()
	buffer := make([]byte, 100)
	n, err := from.Read(buffer)
	if got := string(buffer[:n]); got != want || err != nil {
		t.Fatalf("read %q and error %v, want %q", got, err, want)
	}
}

// ends reads until the link ends, and checks the reason and the time.
func ends(t *testing.T, link *Link, want error, after time.Duration) {
	t.Helper()
	begun := time.Now()
	if n, err := link.Read(make([]byte, 10)); !errors.Is(err, want) || n != 0 {
		t.Errorf("read %d bytes and error %v, want %v", n, err, want)
	}
	if took := time.Since(begun); took != after {
		t.Errorf("it took %s, want %s", took, after)
	}
	if reason := link.Reason(); !errors.Is(reason, want) {
		t.Errorf("reason is %v, want %v", reason, want)
	}
}

func TestLink_EndsWhenThePeerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, other := linked(t, LinkOptions{})
		for range 10 {
			time.AfterFunc(silence-time.Millisecond, func() { say(t, other, "still here") })
			hear(t, link, "still here")
			if quiet := link.Quiet(); quiet != 0 {
				t.Errorf("silent for %s directly after a byte", quiet)
			}
		}
		if reason := link.Reason(); reason != nil {
			t.Fatalf("ended before: %v", reason)
		}
		ends(t, link, ErrSilent, silence)
		if quiet := link.Quiet(); quiet != silence {
			t.Errorf("silent for %s, want %s", quiet, silence)
		}
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the peer reads %v, want the end", err)
		}
	})
}

func TestLink_UnreadBytesAreNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, other := linked(t, LinkOptions{})
		say(t, other, "first")
		time.Sleep(10 * silence) // The reader is busy with other work.
		hear(t, link, "first")
		time.Sleep(10 * silence)
		ends(t, link, ErrSilent, silence)
	})
}

func TestLink_SilenceDuringALargeTransfer(t *testing.T) {
	for name, test := range map[string]struct {
		patient bool
		sent    int
		heard   bool // bytes arrived after the write
		want    time.Duration
	}{
		"nothing was sent":                {true, 0, false, silence},
		"a slow link needs two seconds":   {true, 2 * slowLink, false, silence + 2*time.Second},
		"the peer sent bytes meanwhile":   {true, 2 * slowLink, true, silence},
		"more than the limit":             {true, 60 * slowLink, false, StockSilence},
		"by the side that is not patient": {false, 2 * slowLink, false, silence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link, other := linked(t, LinkOptions{Patient: test.patient})
				go func() { _, _ = io.Copy(io.Discard, other) }()
				if n, err := link.Write(make([]byte, test.sent)); n != test.sent || err != nil {
					t.Fatalf("wrote %d bytes and error %v", n, err)
				}
				synctest.Wait()
				if test.heard {
					say(t, other, "x")
					hear(t, link, "x")
				}
				ends(t, link, ErrSilent, test.want)
			})
		})
	}
}

// Bytes that are sent while a read waits extend that read's limit.
func TestLink_TimeoutGrowsWhileAReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, other := linked(t, LinkOptions{Patient: true})
		go func() { _, _ = io.Copy(io.Discard, other) }()
		time.AfterFunc(silence/2, func() { _, _ = link.Write(make([]byte, 3*slowLink)) })
		ends(t, link, ErrSilent, silence+3*time.Second)
	})
}

func TestLink_KeepsALongerConfiguredSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, _ := linked(t, LinkOptions{Patient: true})
		link.Watch(75 * time.Second)
		ends(t, link, ErrSilent, 75*time.Second)
	})
}

func TestLink_DeadlinesApplyOnlyDuringTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, conn := Pipe()
		defer func() { _ = other.Close() }()
		link := NewLink(conn, LinkOptions{Inspect: func([]byte) error {
			return errors.New("inspected during the handshake")
		}})
		for name, set := range map[string]func(time.Time) error{"SetDeadline": link.SetDeadline,
			"SetReadDeadline": link.SetReadDeadline} {
			begun := time.Now()
			if err := set(begun.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := link.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
				time.Since(begun) != time.Second {
				t.Errorf("%s: read ends with %v after %s, want its deadline", name, err, time.Since(begun))
			}
			if err := set(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := link.SetWriteDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := link.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write ends with %v, want its deadline", err)
		}
		if err := link.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		say(t, link, "hello")
		hear(t, other, "hello")
		say(t, other, "welcome")
		hear(t, link, "welcome")
		if reason := link.Reason(); reason != nil {
			t.Fatalf("the handshake has ended the link: %v", reason)
		}

		link.options.Inspect = nil
		link.Watch(silence)
		for _, set := range []func(time.Time) error{link.SetDeadline, link.SetReadDeadline, link.SetWriteDeadline} {
			if err := set(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		say(t, link, "after")
		hear(t, other, "after")
		ends(t, link, ErrSilent, silence)
	})
}

func TestLink_EndsWhenThePeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, _ := linked(t, LinkOptions{})
		begun := time.Now()
		link.Watch(time.Minute)
		if n, err := link.Write(make([]byte, PipeBuffer+1)); n != PipeBuffer+1 || err != nil {
			t.Errorf("wrote %d bytes and error %v: writers must not notice the end", n, err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s: writers must not wait", took)
		}
		ends(t, link, ErrStalled, WriteStall)
	})
}

func TestLink_WritersWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, other := linked(t, LinkOptions{})
		link.Watch(time.Minute)
		link.Room() // At first there is room.
		for range 3 {
			_, _ = link.Write(make([]byte, longestQueue)) // The first write is being sent, the others wait.
			synctest.Wait()
		}
		had := make(chan struct{})
		go func() {
			link.Room()
			close(had)
		}()
		synctest.Wait()
		select {
		case <-had:
			t.Error("there is room although the peer does not read")
		default:
		}
		begun := time.Now()
		link.Settle(time.Second)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("settling took %s, want the whole second", took)
		}
		if n, err := io.CopyN(io.Discard, other, 3*longestQueue); err != nil {
			t.Errorf("%d bytes arrive, and error %v", n, err)
		}
		<-had
		link.Settle(time.Second)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("settling took %s after all bytes were read", took-time.Second)
		}
	})
}

func TestLink_TheEndUnblocksWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, _ := linked(t, LinkOptions{})
		for range 3 {
			_, _ = link.Write(make([]byte, longestQueue))
			synctest.Wait()
		}
		time.AfterFunc(time.Second, func() { link.End(io.EOF) })
		link.Room()
		link.Settle(time.Hour)
	})
}

func TestLink_WritesAfterTheEndSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := 0
		link, other := linked(t, LinkOptions{Count: func(int, int) { counted++ }})
		gone := errors.New("gone")
		link.End(gone)
		if n, err := link.Write([]byte("into the void")); n != 13 || err != nil {
			t.Errorf("wrote %d bytes and error %v, want 13 and none", n, err)
		}
		if counted != 0 {
			t.Error("unsent bytes are counted")
		}
		hearEnd(t, other)
		ends(t, link, gone, 0)
	})
}

func hearEnd(t *testing.T, from io.Reader) {
	t.Helper()
	if n, err := from.Read(make([]byte, 100)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes and error %v, want the end", n, err)
	}
}

func TestLink_TheFirstReasonCounts(t *testing.T) {
	replaced := errors.New("replaced by a newer session")
	for name, test := range map[string]struct {
		end  func(*Link, net.Conn)
		want error
	}{
		"closed by its owner": {func(l *Link, _ net.Conn) { _ = l.Close() }, net.ErrClosed},
		"ended, then closed":  {func(l *Link, _ net.Conn) { l.End(replaced); _ = l.Close() }, replaced},
		"ended twice":         {func(l *Link, _ net.Conn) { l.End(replaced); l.End(io.EOF) }, replaced},
		"the peer closes":     {func(_ *Link, other net.Conn) { other.Close() }, io.EOF},
		"ended while a read waits": {func(l *Link, _ net.Conn) {
			time.AfterFunc(silence/2, func() { l.End(replaced) })
		}, replaced},
		"the peer closes meanwhile": {func(_ *Link, other net.Conn) {
			time.AfterFunc(silence/2, func() { other.Close() })
		}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link, other := linked(t, LinkOptions{})
				test.end(link, other)
				if _, err := link.Read(make([]byte, 1)); !errors.Is(err, test.want) {
					t.Errorf("read ends with %v, want %v", err, test.want)
				}
				if reason := link.Reason(); !errors.Is(reason, test.want) {
					t.Errorf("reason is %v, want %v", reason, test.want)
				}
				link.End(errors.New("too late"))
				if reason := link.Reason(); !errors.Is(reason, test.want) {
					t.Errorf("later the reason is %v, want %v", reason, test.want)
				}
			})
		})
	}
}

func TestLink_IncomingBytesAreInspectedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("not the protocol")
		var in, out atomic.Int64
		link, other := linked(t, LinkOptions{
			Count: func(came, went int) {
				in.Add(int64(came))
				out.Add(int64(went))
			},
			Inspect: func(p []byte) error {
				if string(p) == "GET /" {
					return refused
				}
				p[0] = '-'
				return nil
			},
		})
		say(t, other, "+12345")
		hear(t, link, "-12345")
		say(t, link, "abc")
		hear(t, other, "abc")
		synctest.Wait()
		if in.Load() != 6 || out.Load() != 3 {
			t.Errorf("counted %d bytes in and %d out, want 6 and 3", in.Load(), out.Load())
		}
		say(t, other, "GET /")
		if _, err := link.Read(make([]byte, 100)); !errors.Is(err, refused) || !errors.Is(link.Reason(), refused) {
			t.Errorf("read ends with %v, and the reason is %v, want %v", err, link.Reason(), refused)
		}
		hearEnd(t, other)
	})
}

// secured is a TLS connection whose other side is gone. Its Close blocks until the network connection below is closed.
type secured struct {
	net.Conn
	below net.Conn
}

func (s secured) NetConn() net.Conn { return s.below }

func (s secured) Close() error {
	_, err := s.below.Read(make([]byte, 1))
	return err
}

func TestLink_EndDoesNotWaitForTheTLSAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, below := Pipe()
		defer func() { _ = other.Close() }()
		link := NewLink(secured{below, below}, LinkOptions{})
		begun := time.Now()
		_ = link.Close()
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		hearEnd(t, other)
	})
}
