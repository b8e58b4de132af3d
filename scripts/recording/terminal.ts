/** Runs a real command in a pseudo-terminal (`script` of util-linux), and keeps its screen. */
import { type ChildProcess, spawn } from 'node:child_process';
import { Screen } from './screen.ts';

const escapeCharacter = String.fromCharCode(27);

/** Splits off a control sequence that is incomplete at the end of the text. */
function splitUnfinished(text: string): [string, string] {
  const at = text.lastIndexOf(escapeCharacter);
  const isUnfinished = at >= 0 && !/[A-Za-z]/.test(text.slice(at));
  return isUnfinished ? [text.slice(0, at), text.slice(at)] : [text, ''];
}

export class Terminal {
  readonly screen = new Screen();
  #changed: () => void;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Shows text as if the terminal had printed it, for prompts. */
  show(text: string): void {
    this.screen.write(text);
    this.#changed();
  }

  /** Runs a shell command; `ended` resolves with its exit status. */
  run(
    command: string,
    options: { cwd: string; environment: Record<string, string>; columns: number },
  ): { process: ChildProcess; ended: Promise<number | null> } {
    const sizedCommand = `stty cols ${options.columns} rows 40; ${command}`;
    const process_ = spawn('script', ['--quiet', '--return', '--command', sizedCommand, '/dev/null'], {
      cwd: options.cwd,
      env: { ...process.env, ...options.environment, SHELL: '/bin/sh', TERM: 'xterm' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let incomplete = '';
    process_.stdout.setEncoding('utf8').on('data', (text: string) => {
      const [whole, unfinished] = splitUnfinished(incomplete + text);
      incomplete = unfinished;
      this.show(whole);
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      process_.once('error', reject);
      process_.once('close', resolve);
    });
    return { process: process_, ended };
  }
}
