/** Reads the commands of the shell blocks (```sh) of a page. */

export interface CommandBlock {
  page: string;
  /** The line of its fence. */
  line: number;
  commands: string[];
}

/** Languages of blocks that hold no command; a block without a language shows output or HTTP. */
const otherLanguages = ['ini', 'json', 'mermaid', 'nginx', 'sql', 'yaml', ''];

const fence = /^\s*```(\S*)(.*)$/;
const comment = /^\s*(#.*)?$/;
const hereDocument = /<<'?(\w+)'?/;

/** Joins the lines of a command that continues with a backslash or has a here-document. */
export function commandsIn(lines: string[]): string[] {
  const commands: string[] = [];
  let open: string[] = [];
  let end: string | undefined;
  for (const line of lines) {
    if (open.length === 0 && comment.test(line)) continue;
    open.push(line);
    end ??= hereDocument.exec(line)?.[1];
    if (end === undefined ? line.endsWith('\\') : line !== end) continue;
    commands.push(open.join('\n'));
    open = [];
    end = undefined;
  }
  if (open.length > 0) throw new Error(`this command has no end: ${open.join('\n')}`);
  return commands;
}

export function shellBlocks(page: string, text: string): CommandBlock[] {
  const blocks: CommandBlock[] = [];
  let open: { language: string; line: number; lines: string[] } | undefined;
  for (const [index, line] of text.split('\n').entries()) {
    const [, language = '', rest = ''] = fence.exec(line) ?? [];
    if (!fence.test(line)) open?.lines.push(line);
    else if (!open) {
      if (language !== 'sh' && (!otherLanguages.includes(language) || rest !== ''))
        throw new Error(`${page}:${index + 1}: commands belong in a block of sh, not of ${language}${rest}`);
      open = { language, line: index + 1, lines: [] };
    } else {
      if (open.language === 'sh') blocks.push({ page, line: open.line, commands: commandsIn(open.lines) });
      open = undefined;
    }
  }
  if (open) throw new Error(`${page}:${open.line}: this block has no end`);
  return blocks;
}
