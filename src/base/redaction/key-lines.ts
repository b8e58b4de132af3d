/**
 * A private key that was printed over several lines: no line but its first and last looks like one. Whoever goes through lines in their
 * order, each stream by itself, is told which of them belong to a key. Pure, but for the place it has come to.
 */

/** Where a stream stands inside a key; plain data. */
export interface OpenKey {
  /** Characters before the key on its first line: what some programs put before each line they print. */
  margin: number;
  /** Characters of a full line; null until one was seen. Only the last line of a key is shorter. */
  width: number | null;
  /** Its last line was seen, and only its end may follow. */
  ended: boolean;
  /** What is longer than any key is none. */
  lines: number;
}

const kind = '[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----';
export const keyBegin = `-----BEGIN ${kind}`;
export const keyEnd = `-----END ${kind}`;
const begins = new RegExp(keyBegin);
const ends = new RegExp(keyEnd);

const encoded = /^[A-Za-z0-9+/]+={0,2}$/;
const header = /^(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): /;
const checksum = /^=[A-Za-z0-9+/]{4}$/;
const leastWidth = 32;
const mostLines = 400;

/** Whether a line may be the middle or the end of a key whose beginning came before it. */
export const mayContinueKey = (line: string): boolean =>
  ends.test(line) || (line.length >= leastWidth && encoded.test(line.slice(-leastWidth)));

/** What is left of a line once what stands before each line, and what ends it in a source text, is taken away. */
const bare = (line: string, margin: number) =>
  line
    .slice(margin)
    .trim()
    .replace(/^["'`]|(?:\\r)?(?:\\n)?["'`]?\s{0,8}[,;+]?$/g, '');

/** Some programs put the same before each line, some something longer, some nothing. */
function bodyOf(line: string, { margin }: OpenKey): string {
  const told = bare(line, margin);
  return told !== '' && (encoded.test(told) || header.test(told)) ? told : bare(line, 0);
}

export interface KeyLines {
  /** Whether the line is part of a key that began on an earlier line of its stream. What begins and ends on one line is not our matter. */
  isInside(stream: string, line: string): boolean;
  /** By stream; empty outside of every key. */
  open(): ReadonlyMap<string, OpenKey>;
}

/** `struck` is how lines of a key were left, where lines that were struck out before are gone through again. */
export function followKeyLines(begun: ReadonlyMap<string, OpenKey> = new Map(), struck?: string): KeyLines {
  const open = new Map([...begun].map(([stream, key]) => [stream, { ...key }]));

  const goesOn = (key: OpenKey, line: string): boolean => {
    if (++key.lines > mostLines) return false;
    if (line === struck) return true;
    const body = bodyOf(line, key);
    if (header.test(body)) return key.width === null;
    if (key.ended && checksum.test(body)) return true;
    if (key.ended || !encoded.test(body)) return false;
    if (key.width === null) key.width = body.length;
    else if (body.length < key.width) key.ended = true;
    return body.length <= key.width && key.width >= leastWidth;
  };

  return {
    isInside(stream, line) {
      const key = open.get(stream);
      const end = key ? ends.exec(line) : null;
      if (end) {
        open.delete(stream);
        return encoded.test(bare(line.slice(0, end.index), 0));
      }
      const begin = begins.exec(line);
      if (begin) {
        if (ends.test(line.slice(begin.index))) open.delete(stream);
        else open.set(stream, { margin: begin.index, width: null, ended: false, lines: 0 });
        return false;
      }
      if (!key || line.trim() === '') return false;
      const inside = goesOn(key, line);
      if (!inside) open.delete(stream);
      return inside;
    },
    open: () => open,
  };
}
