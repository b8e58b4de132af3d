/** Makes lines of a byte stream, in bounded memory: a line that never ends is cut into pieces. */
import { StringDecoder } from 'node:string_decoder';

/** As long as a shipped line may be. */
export const most_line_length = 16_384;

export interface LineSplitter {
  push(chunk: Buffer): string[];
  /** What was left without a line end. */
  end(): string[];
}

export function lineSplitter(): LineSplitter {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  const take = (text: string): string[] => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    while (rest.length > most_line_length) {
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

/** Not between the two halves of one character. */
function cut(text: string): [string, string] {
  const splitsPair = /[\uD800-\uDBFF]/.test(text.charAt(most_line_length - 1));
  const at = splitsPair ? most_line_length - 1 : most_line_length;
  return [text.slice(0, at), text.slice(at)];
}

/** Without the carriage return of other systems and without NUL, which the store's texts cannot hold. */
function shippable(line: string): string[] {
  let left = line.replace(/\r$/, '').replaceAll('\0', '\uFFFD');
  const pieces: string[] = [];
  while (left.length > most_line_length) {
    const [piece, remains] = cut(left);
    pieces.push(piece);
    left = remains;
  }
  return [...pieces, left];
}
