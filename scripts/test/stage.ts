/** Runs the stages of a test run, each a Node program, and records their results and times. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

export interface Stage {
  name: string;
  args: string[];
  environment?: Record<string, string>;
  applies?: () => boolean;
}

interface Result {
  name: string;
  ok: boolean;
  ms: number;
}

const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export class StageRun {
  readonly #results: Result[] = [];
  #child: ChildProcess | undefined;
  #stopped: NodeJS.Signals | undefined;

  constructor() {
    for (const signal of stopSignals) {
      process.on(signal, () => {
        this.#stopped = signal;
        this.#child?.kill(signal);
      });
    }
  }

  async stage(stage: Stage): Promise<void> {
    if (stage.applies?.() === false) return;
    const startedAt = Date.now();
    console.log(`\n── ${stage.name}`);
    const ok = this.#stopped === undefined && (await this.#run(stage));
    const result = { name: stage.name, ok, ms: Date.now() - startedAt };
    this.#results.push(result);
    console.log(line(result));
  }

  failures(): string[] {
    return this.#results.filter(({ ok }) => !ok).map(({ name }) => name);
  }

  summary(): string {
    return this.#results.map(line).join('\n');
  }

  #run({ args, environment }: Stage): Promise<boolean> {
    return new Promise((resolve) => {
      const env = { ...process.env, ...environment };
      const child = spawn(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
      this.#child = child;
      child.once('error', (error) => {
        console.error(error.message);
        resolve(false);
      });
      child.once('exit', (status) => resolve(status === 0));
    });
  }
}

const line = ({ name, ok, ms }: Result) => `  ${ok ? 'ok  ' : 'FAIL'}  ${name} (${(ms / 1000).toFixed(1)} s)`;
