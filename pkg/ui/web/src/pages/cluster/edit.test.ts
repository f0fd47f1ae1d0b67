import { expect, test } from 'vitest';
import { followWrite, keepText, typeText } from './edit';

const live = { text: 'a\n', seen: '1' };
const next = { text: 'b\n', seen: '2' };

test('an edit begins with the live manifest', () => {
  expect(typeText(undefined, live, 'a1\n')).toEqual({ base: live, text: 'a1\n' });
});

test('an edit keeps the manifest with which it began', () => {
  expect(typeText({ base: live, text: 'a1\n', kept: '3' }, next, 'a2\n')).toEqual({
    base: live,
    text: 'a2\n',
    kept: '3',
  });
});

test('the text of the beginning is no edit', () => {
  expect(typeText({ base: live, text: 'a1\n' }, next, 'a\n')).toBeUndefined();
});

test('an edit keeps its text for another version of the cluster', () => {
  expect(keepText({ base: live, text: 'a2\n' }, next, '2')).toEqual({ base: next, text: 'a2\n', kept: '2' });
  expect(keepText(undefined, next, '2')).toBeUndefined();
});

test('what was typed after a write is an edit of what was written', () => {
  expect(followWrite({ base: live, text: 'b2\n' }, next, 'b\n')).toEqual({ base: next, text: 'b2\n' });
  expect(followWrite({ base: live, text: 'b\n' }, next, 'b\n')).toBeUndefined();
});
