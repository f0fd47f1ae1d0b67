import { request, reportSignedOut, ApiError } from '../api/client';
import { StreamParser, type StreamEvent } from './sse';
import { type Change, type Kind, type Problem, RowStore } from './store';

export type Link = 'connecting' | 'live' | 'reconnecting';

/** The server sends a comment every 15 seconds, so a longer silence is a dead connection. */
const longestSilence = 40_000;
const shortestWait = 500;
const longestWait = 30_000;

/** The wait before a new attempt: it doubles, and a random part keeps many browsers from coming back together. */
export function backoff(attempt: number, random = Math.random()): number {
  return Math.min(longestWait, shortestWait * 2 ** attempt) * (0.5 + random / 2);
}

/**
 * Keeps the stream of rows open. It uses fetch, because an EventSource tells no status code and cannot resume at a
 * cursor after a wait of its own.
 */
export class Connection {
  private state: Link = 'connecting';
  private readonly listeners = new Set<() => void>();
  private namespaces = '';
  private closed = AbortSignal.abort();
  private isSignedOut = false;
  private cursor: string | undefined;
  private attempt = 0;

  constructor(private readonly store: RowStore) {}

  readonly link = () => this.state;

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  /** Opens the stream for namespaces ("*" or a list with commas). The returned function closes it. */
  open(namespaces: string): () => void {
    const abort = new AbortController();
    this.namespaces = namespaces;
    this.closed = abort.signal;
    this.isSignedOut = false;
    this.cursor = undefined;
    this.attempt = 0;
    this.set('connecting');
    void this.run(namespaces, abort.signal);
    return () => {
      abort.abort();
      this.store.clear();
    };
  }

  /** Continues after a new sign-in of the same user. The rows stay in between. */
  resume() {
    if (!this.isSignedOut || this.closed.aborted) return;
    this.isSignedOut = false;
    this.attempt = 0;
    void this.run(this.namespaces, this.closed);
  }

  private async run(namespaces: string, closed: AbortSignal) {
    while (!closed.aborted) {
      let wait = 0;
      try {
        await this.read(namespaces, closed);
      } catch (error) {
        if (closed.aborted) return;
        if (error instanceof ApiError && error.status === 401) {
          this.isSignedOut = true;
          this.set('reconnecting');
          return;
        }
        wait = error instanceof ApiError && error.retryAfter ? error.retryAfter * 1000 : 0;
      }
      if (closed.aborted) return;
      this.set('reconnecting');
      await pause(Math.max(wait, backoff(this.attempt++)), closed);
    }
  }

  private async read(namespaces: string, closed: AbortSignal) {
    const silence = new AbortController();
    const signal = AbortSignal.any([closed, silence.signal]);
    const headers = this.cursor ? { 'Last-Event-ID': this.cursor } : undefined;
    let timer = setTimeout(() => silence.abort(), longestSilence);
    try {
      const response = await request(`stream?namespaces=${encodeURIComponent(namespaces)}`, { headers, signal });
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new StreamParser();
      // The server repeats the problems that remain.
      this.store.clearProblems();
      this.set('live');
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), longestSilence);
        for (const event of parser.push(value)) if (!closed.aborted) this.receive(event);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  private receive({ event, id, data }: StreamEvent) {
    this.attempt = 0;
    const content: unknown = JSON.parse(data);
    switch (event) {
      case 'rows':
        // After a cut, the cursor of another replica would not bring back the rows that a reset removes.
        if ((content as Change).reset && !id) this.cursor = undefined;
        this.store.apply(content as Change);
        break;
      case 'synced':
        this.store.setSynced((content as { kind: Kind }).kind);
        break;
      case 'problem':
        this.store.setProblem(content as Problem);
        break;
      case 'solved':
        this.store.clearProblem(content as Problem);
        break;
      case 'signedout':
        reportSignedOut();
        throw new ApiError(401, 'Unauthorized', 'The session has ended.');
    }
    // The cursor moves after the change is in the store. A failure in between repeats the change.
    if (id) this.cursor = id;
  }

  private set(state: Link) {
    if (this.state === state) return;
    this.state = state;
    this.listeners.forEach((listener) => listener());
  }
}

/** Waits. It ends at once when the network comes back or the connection is closed. */
function pause(milliseconds: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener('online', done);
      closed.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    window.addEventListener('online', done);
    closed.addEventListener('abort', done);
  });
}
