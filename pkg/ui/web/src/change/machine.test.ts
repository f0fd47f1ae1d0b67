import { expect, test } from 'vitest';
import { ApiError } from '../api/client';
import type { PreviewAnswer } from './api';
import { ChangeMachine } from './machine';

/** A server whose answers a test gives one by one. */
function server() {
  const requests: { what: string; answer: (value: unknown) => void; fail: (error: unknown) => void }[] = [];
  const ask = (what: string) =>
    new Promise<never>((resolve, reject) => requests.push({ what, answer: resolve as () => void, fail: reject }));
  const machine = new ChangeMachine({
    preview: (text) => ask(`preview ${text}`),
    apply: (text, seen) => ask(`apply ${text} on ${seen}`),
  });
  return { machine, requests, asked: () => requests.map(({ what }) => what) };
}

const good: PreviewAnswer = { seen: '7', report: { cluster: 'a/b', result: 'Add' } };

async function previewed(answer: PreviewAnswer = good) {
  const world = server();
  const done = world.machine.preview('x');
  world.requests[0]!.answer(answer);
  await done;
  return world;
}

test('only the text of the preview can be written', async () => {
  const { machine, asked } = await previewed();
  expect(machine.state().phase).toBe('previewed');
  expect(machine.canApply('x')).toBe(true);
  expect(machine.canApply('y')).toBe(false);
  expect(await machine.apply('y')).toBe(false);
  expect(asked()).toEqual(['preview x']);
});

test('a text with problems cannot be written', async () => {
  const { machine } = await previewed({ ...good, problems: [{ message: 'unknown field' }] });
  expect(machine.canApply('x')).toBe(false);
  expect(await machine.apply('x')).toBe(false);
});

test('one preview allows one write, on what the user has seen', async () => {
  const { machine, requests, asked } = await previewed();
  const first = machine.apply('x');
  expect(await machine.apply('x')).toBe(false);
  await machine.preview('x');
  machine.reset();
  expect(machine.state().phase).toBe('applying');
  requests[1]!.answer(['Cluster a/b']);
  expect(await first).toBe(true);
  expect(machine.state()).toMatchObject({ phase: 'applied', written: ['Cluster a/b'] });
  expect(await machine.apply('x')).toBe(false);
  expect(asked()).toEqual(['preview x', 'apply x on 7']);
});

test('a late answer of an earlier preview does not count', async () => {
  const { machine, requests } = server();
  const first = machine.preview('x');
  const second = machine.preview('y');
  requests[1]!.answer({ ...good, seen: '8' });
  await second;
  requests[0]!.answer(good);
  await first;
  expect(machine.canApply('x')).toBe(false);
  expect(machine.canApply('y')).toBe(true);
  expect(machine.state().answer?.seen).toBe('8');
});

test.each([
  ['no answer', new ApiError(0, 'Unreachable', '')],
  ['a proxy that gave up', new ApiError(504, 'Unknown', '')],
  ['a server that failed', new ApiError(500, 'Internal', '')],
  ['an unexpected error', new Error('broken')],
])('after %s, the write may have taken effect, and only a new preview helps', async (_, error) => {
  const { machine, requests, asked } = await previewed();
  const write = machine.apply('x');
  requests[1]!.fail(error);
  expect(await write).toBe(false);
  expect(machine.state()).toMatchObject({ phase: 'failed', unknown: true, error });
  expect(await machine.apply('x')).toBe(false);
  const again = machine.preview('x');
  expect(machine.state().unknown).toBe(true);
  requests[2]!.answer(good);
  await again;
  expect(machine.state().unknown).toBe(false);
  expect(asked()).toEqual(['preview x', 'apply x on 7', 'preview x']);
});

test.each([
  ['the cluster has changed', new ApiError(412, 'Changed', '')],
  ['the user may not write', new ApiError(403, 'Forbidden', '')],
  ['the name is taken', new ApiError(409, 'AlreadyExists', '')],
])('nothing was written if %s, and a new preview is necessary', async (_, error) => {
  const { machine, requests } = await previewed();
  const write = machine.apply('x');
  requests[1]!.fail(error);
  await write;
  expect(machine.state()).toMatchObject({ phase: 'failed', unknown: false, error });
  expect(machine.canApply('x')).toBe(false);
});

test('problems of a refused write appear like those of a preview', async () => {
  const { machine, requests } = await previewed();
  const write = machine.apply('x');
  const problems = [{ line: 3, message: 'too many' }];
  requests[1]!.fail(new ApiError(422, 'Invalid', '', undefined, problems));
  await write;
  expect(machine.state().answer).toEqual({ ...good, problems });
});

test.each([401, 429])('after status %d the preview stays valid, because the server did not begin', async (status) => {
  const { machine, requests, asked } = await previewed();
  const write = machine.apply('x');
  requests[1]!.fail(new ApiError(status, '', ''));
  expect(await write).toBe(false);
  expect(machine.canApply('x')).toBe(true);
  const again = machine.apply('x');
  requests[2]!.answer([]);
  expect(await again).toBe(true);
  expect(asked()).toEqual(['preview x', 'apply x on 7', 'apply x on 7']);
});

test('a failed preview keeps no old answer', async () => {
  const { machine, requests } = await previewed();
  const second = machine.preview('y');
  requests[1]!.fail(new ApiError(0, 'Unreachable', ''));
  await second;
  expect(machine.state()).toEqual({ phase: 'failed', text: 'y', error: expect.any(ApiError), unknown: false });
});

test('reset forgets a preview that is under way', async () => {
  const { machine, requests } = server();
  const first = machine.preview('x');
  machine.reset();
  requests[0]!.answer(good);
  await first;
  expect(machine.state().phase).toBe('idle');
});
