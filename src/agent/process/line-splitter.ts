/** Splits a byte stream into lines, in bounded memory: an endless line is cut into pieces. */
import { StringDecoder } from 'node:string_decoder';

/** The longest line that the server accepts. */
export const max_line_length = 16_384;

export interface LineSplitter {
  push(chunk: Buffer): string[];
  /** The rest without a line end. */
  end(): string[];
}

export function lineSplitter(): LineSplitter {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  const take = (text: string): string[] => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    while (rest.length > max_line_length) {
      const [piece = '', left = ''] = cut(rest);
      lines.push(piece);
      rest = left;
    }
    return lines.flatMap(shippable);
  };
  return {
    push: (chunk) => take(decoder.write(chunk)),
    end() {
      const lines = take(decoder.end());
      const last = rest;
      rest = '';
      return last ? [...lines, ...shippable(last)] : lines;
    },
  };
}

/** Does not cut between the halves of a surrogate pair. */
function cut(text: string): [string, string] {
  const splitsPair = /[\uD800-\uDBFF]/.test(text.charAt(max_line_length - 1));
  const at = splitsPair ? max_line_length - 1 : max_line_length;
  return [text.slice(0, at), text.slice(at)];
}

/** Removes carriage returns, and NUL, which the store cannot hold. */
function shippable(line: string): string[] {
  let left = line.replace(/\r$/, '').replaceAll('\0', '\uFFFD');
  const pieces: string[] = [];
  while (left.length > max_line_length) {
    const [piece, remains] = cut(left);
    pieces.push(piece);
    left = remains;
  }
  return [...pieces, left];
}
