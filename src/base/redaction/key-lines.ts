/**
 * Recognizes a private key that is printed over several lines. Its middle lines alone do not look
 * like a secret. The caller passes the lines of each stream in order.
 */

/** The state of a stream inside a key, as plain data. */
export interface OpenKey {
  /** Characters before the key on its first line: some programs prefix each line they print. */
  margin: number;
  /** Length of a full line; null before the first one. Only the last line of a key is shorter. */
  width: number | null;
  /** The last line of the key was seen. A checksum and the end marker may follow. */
  ended: boolean;
  /** The number of lines so far. A block that is longer than any key is not a key. */
  lines: number;
}

const kind = '[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----';
export const keyBegin = `-----BEGIN ${kind}`;
export const keyEnd = `-----END ${kind}`;
const beginPattern = new RegExp(keyBegin);
const endPattern = new RegExp(keyEnd);

const encoded = /^[A-Za-z0-9+/]+={0,2}$/;
const header = /^(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): /;
const checksum = /^=[A-Za-z0-9+/]{4}$/;
const minWidth = 32;
const maxLines = 400;

/** Whether a line may belong to a key that began earlier: a long encoded line or an end marker. */
export const mayContinueKey = (line: string): boolean =>
  endPattern.test(line) || (line.length >= minWidth && encoded.test(line.slice(-minWidth)));

/** Strips the line prefix, quotes and the line ending of a source text. */
const stripLine = (line: string, margin: number) =>
  line
    .slice(margin)
    .trim()
    .replace(/^["'`]|(?:\\r)?(?:\\n)?["'`]?\s{0,8}[,;+]?$/g, '');

/** The prefix of the first line may repeat on each line, be followed by blanks, or be missing. */
function bodyOf(line: string, { margin }: OpenKey): string {
  const stripped = stripLine(line, margin);
  return stripped !== '' && (encoded.test(stripped) || header.test(stripped)) ? stripped : stripLine(line, 0);
}

export interface KeyLines {
  /**
   * Whether the line belongs to a key that began on an earlier line of its stream. A key on a
   * single line is left to the patterns.
   */
  isInside(stream: string, line: string): boolean;
  /** The open keys by stream; empty if no stream is inside a key. */
  open(): ReadonlyMap<string, OpenKey>;
}

/** Pass `mark`, the text that replaces a line of a key, if some lines are redacted already. */
export function createKeyLines(openKeys: ReadonlyMap<string, OpenKey> = new Map(), mark?: string): KeyLines {
  const open = new Map([...openKeys].map(([stream, key]) => [stream, { ...key }]));

  const belongsToKey = (key: OpenKey, line: string): boolean => {
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
      const end = key ? endPattern.exec(line) : null;
      if (end) {
        open.delete(stream);
        return encoded.test(stripLine(line.slice(0, end.index), 0));
      }
      const begin = beginPattern.exec(line);
      if (begin) {
        if (endPattern.test(line.slice(begin.index))) open.delete(stream);
        else open.set(stream, { margin: begin.index, width: null, ended: false, lines: 0 });
        return false;
      }
      if (!key || line.trim() === '') return false;
      const inside = belongsToKey(key, line);
      if (!inside) open.delete(stream);
      return inside;
    },
    open: () => open,
  };
}
