package wire

import (
	"context"
	"time"

	"github.com/gorilla/websocket"
)

// Tending configures a session's signs of life.
type Tending struct {
	// Heartbeat is the interval of pings, the first one immediately. 0 means no pings.
	Heartbeat time.Duration
	// Pinged is called for every ping, by the reader's goroutine.
	Pinged func()
	// Pong returns the content of pongs. nil means empty pongs.
	Pong func() string
	// Heard is called with the content of pongs.
	Heard func(string)
}

// Tend gives signs of life until the context ends. Call it after a Session was made from the WebSocket, because it
// replaces the Session's handlers. Call it before the Session is served: the replaced handlers write in the reader's
// goroutine, and set deadlines concurrently with writers.
func Tend(ctx context.Context, ws *websocket.Conn, t Tending) {
	ws.SetReadLimit(MaxMessage)
	pings := make(chan struct{}, 1)
	ws.SetPingHandler(func(string) error {
		if t.Pinged != nil {
			t.Pinged()
		}
		select {
		case pings <- struct{}{}:
		default: // an answer is already pending
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
		// A stalled link ends by itself, and its reader reports that.
		_ = ws.WriteControl(kind, []byte(carried), time.Now().Add(WriteStall))
	}
}
