package ui

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cable is a TCP connection between the browser and Drover that a test can cut and join.
type cable struct {
	url    string
	target string
	mu     sync.Mutex
	isCut  bool
	open   map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	target, err := url.Parse(to)
	check(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	c := &cable{target: target.Host, open: map[net.Conn]bool{}}
	c.url = "https://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { c.carry(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		c.cut()
		group.Wait()
	})
	return c
}

// carry copies bytes in both directions until one side ends.
func (c *cable) carry(ctx context.Context, browser net.Conn) {
	defer browser.Close()
	drover, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.target)
	if err != nil {
		return
	}
	defer drover.Close()
	if !c.add(browser) {
		return
	}
	defer c.remove(browser)
	go func() {
		_, _ = io.Copy(drover, browser) // the end of either side ends both
		drover.Close()
	}()
	_, _ = io.Copy(browser, drover)
}

func (c *cable) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return !c.isCut
}

func (c *cable) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// cut closes all connections and every other one until join.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for conn := range c.open {
		conn.Close()
	}
}

func (c *cable) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}
