package wire

import "sync"

// Buffers recycles the buffers with which a proxy copies answers. It implements httputil.BufferPool.
type Buffers struct{ pool sync.Pool }

// NewBuffers returns Buffers of a size in bytes.
func NewBuffers(size int) *Buffers {
	return &Buffers{pool: sync.Pool{New: func() any { return new(make([]byte, size)) }}}
}

// Get implements httputil.BufferPool.
func (b *Buffers) Get() []byte { return *b.pool.Get().(*[]byte) }

// Put implements httputil.BufferPool.
func (b *Buffers) Put(used []byte) { b.pool.Put(&used) }
