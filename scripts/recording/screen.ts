/**
 * A terminal screen that interprets the control sequences of the CLI. It throws on any other
 * sequence, so that a recording never differs from a real terminal.
 */

/** Text with the SGR codes in force: 1 bold, 2 dim, 31 to 36 colours. */
export interface Span {
  text: string;
  codes: number[];
}

export type Line = Span[];

interface Cell {
  character: string;
  codes: number[];
}

const controlSequence = new RegExp(`${String.fromCharCode(27)}\\[(\\??[0-9;]*)([A-Za-z])`, 'y');

export class Screen {
  #lines: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #codes: number[] = [];

  write(text: string): void {
    for (let at = 0; at < text.length; ) {
      controlSequence.lastIndex = at;
      const match = controlSequence.exec(text);
      if (match) {
        this.#apply(match[1] ?? '', match[2] ?? '');
        at += match[0].length;
        continue;
      }
      const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
      this.#put(character);
      at += character.length;
    }
  }

  /** Returns the current lines, without blank lines at the end. */
  lines(): Line[] {
    const lines = this.#lines.map(spansOf);
    while (lines.length > 0 && lines.at(-1)?.length === 0) lines.pop();
    return lines;
  }

  #put(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n') this.#row += 1;
    else if (character >= ' ') this.#line()[this.#column++] = { character, codes: this.#codes };
    else throw new Error(`unknown control character ${JSON.stringify(character)}`);
    this.#line();
  }

  #line(): Cell[] {
    for (let row = this.#lines.length; row <= this.#row; row++) this.#lines.push([]);
    const line = this.#lines[this.#row] ?? [];
    for (let column = line.length; column < this.#column; column++) line.push({ character: ' ', codes: [] });
    return line;
  }

  #apply(parameters: string, letter: string): void {
    if (letter === 'm')
      this.#codes = parameters.split(';').flatMap((code) => (Number(code) === 0 ? [] : [Number(code)]));
    else if (letter === 'K') this.#line().length = this.#column;
    else if (letter === 'J') {
      this.#line().length = this.#column;
      this.#lines.length = this.#row + 1;
    } else if (letter === 'A') this.#row = Math.max(0, this.#row - Number(parameters || 1));
    else if (!/^\?25[hl]$/.test(parameters + letter))
      throw new Error(`unknown control sequence ${parameters}${letter}`);
  }
}

function spansOf(cells: Cell[]): Line {
  const spans: Span[] = [];
  for (const { character, codes } of cells) {
    const last = spans.at(-1);
    if (last && last.codes.join() === codes.join()) last.text += character;
    else spans.push({ text: character, codes });
  }
  const last = spans.at(-1);
  if (last) last.text = last.text.trimEnd();
  return last?.text === '' ? spans.slice(0, -1) : spans;
}
