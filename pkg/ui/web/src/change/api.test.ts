import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError } from '../api/client';
import { askJSON, changeApi, loadManifest } from './api';

/** Answers requests one after the other, and records their methods and names of attempts. */
function serve(...answers: [status: number, body: object][]) {
  const names: string[] = [];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
    names.push(`${init.method} ${new Headers(init.headers).get('Idempotency-Key')}`);
    const [status, body] = answers[names.length - 1]!;
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Retry-After': '1' } }));
  });
  return names;
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test('a write that comes too early waits, and is another attempt', async () => {
  const names = serve([429, { error: 'wait', reason: 'TooManyRequests' }], [200, { written: ['Cluster a/b'] }]);
  const write = changeApi({ namespace: 'a', name: 'b' }).apply('x', '7');
  await vi.advanceTimersByTimeAsync(2000);
  expect(await write).toEqual(['Cluster a/b']);
  expect(names).toHaveLength(2);
  expect(new Set(names).size).toBe(2);
});

test('a write whose result is unknown is not sent again', async () => {
  const names = serve([502, { error: 'lost', reason: 'Unknown' }]);
  await expect(changeApi({ namespace: 'a', name: 'b' }).apply('x', '7')).rejects.toBeInstanceOf(ApiError);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(names).toHaveLength(1);
});

test.each([
  ['an edit', false, '7', '"7" null'],
  ['a creation', true, '', 'null *'],
  ['a creation whose preview has seen a cluster', true, '7', 'null *'],
])('the condition of %s', async (_, isNew, seen, want) => {
  const conditions: string[] = [];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    conditions.push(`${headers.get('If-Match')} ${headers.get('If-None-Match')}`);
    return Promise.resolve(new Response('{"written":null}'));
  });
  await changeApi({ namespace: 'a', name: 'b' }, { isNew }).apply('x', seen);
  expect(conditions).toEqual([want]);
});

test.each([
  ['the read of a manifest', (signal?: AbortSignal) => loadManifest({ namespace: 'a', name: 'b' }, signal)],
  ['the read of a dialog', (signal?: AbortSignal) => askJSON('x', { signal })],
  ['a deletion', (signal?: AbortSignal) => askJSON('x', { method: 'DELETE', signal })],
])('%s ends when the server is silent, or when the page no longer wants it', async (_, send) => {
  const limit = new AbortController();
  vi.spyOn(AbortSignal, 'timeout').mockReturnValue(limit.signal);
  vi.stubGlobal('fetch', (_: string, { signal }: { signal: AbortSignal }) => {
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  });
  const page = new AbortController();
  const unwanted = send(page.signal);
  page.abort();
  await expect(unwanted).rejects.toBe(page.signal.reason);
  const silent = send(new AbortController().signal);
  limit.abort();
  await expect(silent).rejects.toMatchObject({ status: 0, message: 'The server does not answer.' });
});
