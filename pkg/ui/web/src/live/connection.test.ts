import { afterEach, expect, test, vi } from 'vitest';
import { backoff, Connection } from './connection';
import { RowStore } from './store';

afterEach(() => vi.unstubAllGlobals());

test('the wait doubles up to half a minute, and its random part is at most half of it', () => {
  expect([0, 1, 2, 3, 10].map((attempt) => backoff(attempt, 1))).toEqual([500, 1000, 2000, 4000, 30_000]);
  expect(backoff(1, 0)).toBe(500);
});

/** Answers requests for the stream with texts, each of which ends with a cut. Returns the cursors of the requests. */
async function follow(...texts: string[]) {
  const cursors: (string | null)[] = [];
  const store = new RowStore((publish) => publish());
  let close = () => {};
  await new Promise<void>((resolve) => {
    vi.stubGlobal('window', {
      addEventListener: (_: string, now: () => void) => now(),
      removeEventListener: () => {},
    });
    vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
      cursors.push(new Headers(init.headers).get('Last-Event-ID'));
      const text = texts.shift();
      if (text === undefined) resolve();
      return text === undefined ? new Promise(() => {}) : Promise.resolve(new Response(text));
    });
    close = new Connection(store).open('*');
  });
  const { problems, clusterList } = store.snapshot();
  close();
  return { cursors, problems, names: clusterList.map((cluster) => cluster.name) };
}

const rows = (name: string, more = '') =>
  `event: rows\n${more}data: {"kind":"clusters","reset":true,"put":[{"namespace":"a","name":"${name}"}]}\n\n`;

test('a connection continues at its cursor', async () => {
  const { cursors, names } = await follow(rows('one', 'id: x.5\n'));
  expect(cursors).toEqual([null, 'x.5']);
  expect(names).toEqual(['one']);
});

test('a reset that is cut leaves no cursor', async () => {
  const { cursors } = await follow(rows('one', 'id: x.5\n'), rows('two'));
  expect(cursors).toEqual([null, 'x.5', null]);
});

test('a problem that is solved during a cut does not stay', async () => {
  const problem = 'event: problem\ndata: {"kind":"machines","namespace":"","error":"no","reason":"Internal"}\n\n';
  expect((await follow(problem, rows('one', 'id: x.5\n'))).problems).toEqual([]);
  expect((await follow(rows('one', 'id: x.5\n'), problem)).problems).toHaveLength(1);
});

test('after a new sign-in, the connection continues where it was, and keeps the rows', async () => {
  const cursors: (string | null)[] = [];
  const answers = [new Response(rows('one', 'id: x.5\n') + 'event: signedout\ndata: {}\n\n')];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
    cursors.push(new Headers(init.headers).get('Last-Event-ID'));
    const answer = answers.shift();
    return answer ? Promise.resolve(answer) : new Promise(() => {});
  });
  const store = new RowStore((publish) => publish());
  const connection = new Connection(store);
  const close = connection.open('*');
  await vi.waitFor(() => expect(connection.link()).toBe('reconnecting'));
  expect(cursors).toEqual([null]);
  connection.resume();
  connection.resume();
  await vi.waitFor(() => expect(cursors).toEqual([null, 'x.5']));
  expect(store.snapshot().clusterList).toHaveLength(1);
  close();
});
