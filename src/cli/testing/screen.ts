/**
 * A terminal in memory. It interprets the control sequences that the CLI sends, so that tests can
 * read the screen.
 */
import { plain } from '../render/text/palette.ts';
import type { TerminalOutput } from '../terminal/terminal.ts';

export interface Screen extends TerminalOutput {
  lines(): string[];
  isCursorHidden(): boolean;
  /** Returns everything that was ever written. */
  raw(): string;
}

const escapeMark = String.fromCharCode(27);
const control = new RegExp(`${escapeMark}\\[(\\??)(\\d*)([A-Za-z])|\\r|\\n|[^${escapeMark}\\r\\n]+`, 'g');

export function screenOutput(size: { columns: number; rows: number }): Screen {
  const lines: string[] = [''];
  let row = 0;
  let column = 0;
  let isHidden = false;
  let raw = '';

  const put = (text: string) => {
    const line = lines[row] ?? '';
    lines[row] = line.slice(0, column).padEnd(column) + text + line.slice(column + text.length);
    column += text.length;
  };
  const commands: Record<string, (count: number) => void> = {
    A: (count) => {
      row = Math.max(0, row - count);
    },
    K: () => {
      lines[row] = (lines[row] ?? '').slice(0, column);
    },
    J: () => {
      lines[row] = (lines[row] ?? '').slice(0, column);
      lines.length = row + 1;
    },
    h: () => {
      isHidden = false;
    },
    l: () => {
      isHidden = true;
    },
    m: () => {},
  };

  return {
    write(text) {
      raw += text;
      for (const [piece, , count, name] of text.matchAll(control)) {
        if (piece === '\r') column = 0;
        else if (piece === '\n') {
          row += 1;
          column = 0;
          lines[row] ??= '';
        } else if (name) {
          const command = commands[name];
          if (!command) throw new Error(`unknown control sequence ${JSON.stringify(piece)}`);
          command(Number(count || 1));
        } else put(piece);
      }
    },
    columns: () => size.columns,
    rows: () => size.rows,
    interactive: true,
    paint: plain,
    onResize: () => () => {},
    lines: () => (lines.at(-1) === '' ? lines.slice(0, -1) : [...lines]),
    isCursorHidden: () => isHidden,
    raw: () => raw,
  };
}
