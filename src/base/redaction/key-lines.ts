/**
 * Recognizes a private key printed over several lines, whose middle lines look like nothing in
 * particular. The caller feeds lines in order, per stream. Pure, apart from the position in each
 * stream.
 */

/** The position of a stream inside a key; plain data. */
export interface OpenKey {
  /** Characters before the key on its first line: some programs prefix each line they print. */
  margin: number;
  /** Length of a full line; null until one was seen. Only the last line of a key is shorter. */
  width: number | null;
  /** The last line was seen; only the end marker may follow. */
  ended: boolean;
  /** Lines so far; a longer block than any key is not a key. */
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
const minWidth = 32;
const maxLines = 400;

/** Whether a line may be the middle or the end of a key that began earlier. */
export const mayContinueKey = (line: string): boolean =>
  ends.test(line) || (line.length >= minWidth && encoded.test(line.slice(-minWidth)));

/** Strips the line prefix, quotes and the line ending of a source text. */
const bare = (line: string, margin: number) =>
  line
    .slice(margin)
    .trim()
    .replace(/^["'`]|(?:\\r)?(?:\\n)?["'`]?\s{0,8}[,;+]?$/g, '');

/** The first line's prefix may repeat on each line, be longer there, or be missing. */
function bodyOf(line: string, { margin }: OpenKey): string {
  const stripped = bare(line, margin);
  return stripped !== '' && (encoded.test(stripped) || header.test(stripped)) ? stripped : bare(line, 0);
}

export interface KeyLines {
  /**
   * Whether the line belongs to a key that began on an earlier line of its stream. A key on a
   * single line is left to the patterns.
   */
  isInside(stream: string, line: string): boolean;
  /** By stream; empty outside of every key. */
  open(): ReadonlyMap<string, OpenKey>;
}

/** `mark` replaces lines of a key; pass it when lines that are already redacted are read again. */
export function followKeyLines(begun: ReadonlyMap<string, OpenKey> = new Map(), mark?: string): KeyLines {
  const open = new Map([...begun].map(([stream, key]) => [stream, { ...key }]));

  const continues = (key: OpenKey, line: string): boolean => {
    if (++key.lines > maxLines) return false;
    if (line === mark) return true;
    const body = bodyOf(line, key);
    if (header.test(body)) return key.width === null;
    if (key.ended && checksum.test(body)) return true;
    if (key.ended || !encoded.test(body)) return false;
    if (key.width === null) key.width = body.length;
    else if (body.length < key.width) key.ended = true;
    return body.length <= key.width && key.width >= minWidth;
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
      const inside = continues(key, line);
      if (!inside) open.delete(stream);
      return inside;
    },
    open: () => open,
  };
}
