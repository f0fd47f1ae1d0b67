package wire

import (
	"context"
	"time"

	"github.com/gorilla/websocket"
)

// Tending says how a session gives signs of life.
type Tending struct {
	// Heartbeat is how often to ping, beginning at once; 0 is never.
	Heartbeat time.Duration
	// Pinged is told of every ping, by the goroutine that reads.
	Pinged func()
	// Pong is what pongs carry; nil is nothing.
	Pong func() string
	// Heard is told what pongs carried.
	Heard func(string)
}

// Tend gives signs of life until the context ends. It has to be called after a Session was made of the WebSocket, whose own handlers it
// replaces, and before that is served: those write in the reader's goroutine, and set deadlines beside the writers.
func Tend(ctx context.Context, ws *websocket.Conn, t Tending) {
	ws.SetReadLimit(MaxMessage)
	pings := make(chan struct{}, 1)
	ws.SetPingHandler(func(string) error {
		if t.Pinged != nil {
			t.Pinged()
		}
		select {
		case pings <- struct{}{}:
		default: // One is to be answered already.
		}
		return nil
	})
	ws.SetPongHandler(func(carried string) error {
		if t.Heard != nil {
			t.Heard(carried)
		}
		return nil
	})
	go t.run(ctx, ws, pings)
}

func (t Tending) run(ctx context.Context, ws *websocket.Conn, pings <-chan struct{}) {
	var beats <-chan time.Time
	if t.Heartbeat > 0 {
		ticker := time.NewTicker(t.Heartbeat)
		defer ticker.Stop()
		beats = ticker.C
		_ = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(WriteStall))
	}
	for {
		kind, carried := websocket.PingMessage, ""
		select {
		case <-ctx.Done():
			return
		case <-beats:
		case <-pings:
			kind = websocket.PongMessage
			if t.Pong != nil {
				carried = t.Pong()
			}
		}
		// A link that takes nothing ends by itself, and its reader tells of it.
		_ = ws.WriteControl(kind, []byte(carried), time.Now().Add(WriteStall))
	}
}
