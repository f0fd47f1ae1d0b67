import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('localStorage', { getItem: () => null });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('the check of many names waits for the limit of the server', async () => {
  let left = 20;
  vi.stubGlobal('fetch', (url: string) => {
    if (left-- > 0) {
      const clusters = url.includes('/n7/') ? 'none' : 'view';
      return Promise.resolve(Response.json({ clusters }));
    }
    left = 5;
    return Promise.resolve(
      Response.json({ error: 'wait', reason: 'TooManyRequests' }, { status: 429, headers: { 'Retry-After': '1' } }),
    );
  });
  const { withoutAccess } = await import('./namespaces');
  const answer = withoutAccess(Array.from({ length: 50 }, (_, i) => `n${i}`));
  await vi.runAllTimersAsync();
  expect(await answer).toEqual(['n7']);
});

test('a link to a cluster suggests its namespace', async () => {
  const { namespaceOf } = await import('./namespaces');
  expect(namespaceOf('/ui/clusters/team-a/demo')).toBe('team-a');
  expect(namespaceOf('/ui/clusters')).toBeUndefined();
});
