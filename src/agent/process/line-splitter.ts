/** Splits a byte stream into lines. Cuts an endless line into pieces, so memory is bounded. */
import { StringDecoder } from 'node:string_decoder';

/** The longest line that the server accepts. */
export const max_line_length = 16_384;

export interface LineSplitter {
  push(chunk: Buffer): string[];
  /** Returns the last line if it has no line end. */
  end(): string[];
}

export function lineSplitter(): LineSplitter {
  const decoder = new StringDecoder('utf8');
  let unfinished = '';
  const splitText = (text: string): string[] => {
    const lines = (unfinished + text).split('\n');
    unfinished = lines.pop() ?? '';
    while (unfinished.length > max_line_length) {
      const [piece = '', remainder = ''] = cut(unfinished);
      lines.push(piece);
      unfinished = remainder;
    }
    return lines.flatMap(toShippableLines);
  };
  return {
    push: (chunk) => splitText(decoder.write(chunk)),
    end() {
      const lines = splitText(decoder.end());
      const last = unfinished;
      unfinished = '';
      return last ? [...lines, ...toShippableLines(last)] : lines;
    },
  };
}

/** Cuts at the length limit, but not between the halves of a surrogate pair. */
function cut(text: string): [string, string] {
  const splitsPair = /[\uD800-\uDBFF]/.test(text.charAt(max_line_length - 1));
  const at = splitsPair ? max_line_length - 1 : max_line_length;
  return [text.slice(0, at), text.slice(at)];
}

/** Removes the carriage return and replaces NUL, which the store cannot hold. Cuts long lines. */
function toShippableLines(line: string): string[] {
  let remainder = line.replace(/\r$/, '').replaceAll('\0', '\uFFFD');
  const pieces: string[] = [];
  while (remainder.length > max_line_length) {
    const [piece, next] = cut(remainder);
    pieces.push(piece);
    remainder = next;
  }
  return [...pieces, remainder];
}
