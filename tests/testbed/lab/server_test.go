package lab

import (
	"context"
	"net/http/httptest"
	"testing"
)

func TestHold_SendsAnswersAfterTheRelease(t *testing.T) {
	l := newLab(Config{Name: "holdtest", Dir: t.TempDir()})
	hold := l.HoldCreates()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		l.await(t.Context())(httptest.NewRecorder())
	}()
	select {
	case <-hold.Sent():
		t.Fatal("an answer was sent before the release")
	case <-answered:
		t.Fatal("an answer was not held")
	default:
	}
	hold.Release()
	hold.Release()
	<-hold.Sent()
	<-answered
}

func TestHold_SendsNoAnswerToAClosedConnection(t *testing.T) {
	l := newLab(Config{Name: "holdtest", Dir: t.TempDir()})
	hold := l.HoldCreates()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	l.await(gone)(httptest.NewRecorder())
	select {
	case <-hold.Sent():
		t.Error("an answer counts as sent although the caller has disconnected")
	default:
	}
}
