import { describe, expect, it } from 'vitest';
import { readableLine } from './log-lines.ts';

describe('log lines', () => {
  it('are stripped of terminal codes', () => {
    const green = '\u001b[32m';
    expect(readableLine(`listening on ${green}http://127.0.0.1\u001b[0m`).text).toBe('listening on http://127.0.0.1');
  });

  it('show level, message and other fields if they are structured', () => {
    const line = JSON.stringify({ at: 'x', level: 'warn', msg: 'beat failed', node_id: 'node_1', tries: 3 });
    expect(readableLine(line)).toEqual({ level: 'warn', text: 'beat failed', more: 'tries=3' });
    expect(readableLine(JSON.stringify({ level: 50, msg: 'no' })).level).toBe('error');
  });

  it.each(['{"a": 1}', '{"broken', '{"not": json}', '[1, 2]'])(
    'stay unchanged if they only look structured: %s',
    (line) => {
      expect(readableLine(line)).toEqual({ level: null, text: line, more: '' });
    },
  );
});
