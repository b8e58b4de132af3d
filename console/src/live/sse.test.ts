import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventParser } from './sse.ts';

const text = [
  'retry: 1000\nid: 1-1\nevent: position\ndata: {}\n\n',
  ': alive\n\n',
  'id: 2-1\r\nevent: node\r\ndata: {"a":\r\ndata: 1}\r\n\r\n',
  'data: plain\n\n',
  'id: 3-1\n\n',
].join('');

const events = [
  { event: 'position', data: '{}', id: '1-1' },
  { event: 'node', data: '{"a":\n1}', id: '2-1' },
  { event: 'message', data: 'plain', id: null },
  { event: 'message', data: '', id: '3-1' },
];

describe('server-sent events', () => {
  it('are parsed from text', () => {
    expect(new EventParser().feed(text)).toEqual(events);
  });

  it('are parsed the same wherever the network splits the text', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const parser = new EventParser();
        const at = [0, ...cuts.toSorted((a, b) => a - b), text.length];
        const read = at.flatMap((from, index) => parser.feed(text.slice(from, at[index + 1] ?? from)));
        expect(read).toEqual(events);
      }),
    );
  });
});
