import { expect, test } from 'vitest';
import { StreamParser } from './sse';

test('an event that arrives in pieces is one event', () => {
  const parser = new StreamParser();
  expect(parser.push('event: rows\nid: 7\nda')).toEqual([]);
  expect(parser.push('ta: {"kind":\ndata: "clusters"}\n')).toEqual([]);
  expect(parser.push('\nevent: synced\n')).toEqual([{ event: 'rows', id: '7', data: '{"kind":\n"clusters"}' }]);
});

test('a carriage return at the end of a piece belongs to the line feed of the next', () => {
  const parser = new StreamParser();
  expect(parser.push('data: a\r')).toEqual([]);
  expect(parser.push('\n\r\n')).toEqual([{ event: 'message', id: undefined, data: 'a' }]);
});

test('a comment keeps the connection alive and is no event', () => {
  expect(new StreamParser().push(': ping\n\n')).toEqual([]);
});
