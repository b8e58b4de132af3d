/**
 * Shows the progress of a whole run: the files done, the failures, and the estimated time left.
 * Prints failed tests and their errors as soon as their file ends, and only counts files that pass.
 */
import { MinimalReporter, type TestModule, type TestSpecification, type Vitest } from 'vitest/node';
import { estimateLeftMs, progressLine } from './progress.ts';

const printIntervalMs = 15_000;

export default class ProgressReporter extends MinimalReporter {
  /** The estimated milliseconds of each file that has not ended. */
  readonly #waiting = new Map<string, number>();
  readonly #runningSince = new Map<string, number>();
  #ctx: Vitest | undefined;
  #startedMs = 0;
  #printedMs = 0;
  #files = 0;
  #failed = 0;
  #doneMs = 0;

  override onInit(ctx: Vitest): void {
    super.onInit(ctx);
    this.#ctx = ctx;
  }

  override onTestRunStart(specifications: readonly TestSpecification[]): void {
    super.onTestRunStart(specifications);
    this.#startedMs = Date.now();
    this.#printedMs = this.#startedMs;
    this.#files = specifications.length;
    for (const specification of specifications) {
      const earlier = this.#ctx?.cache.getTestSpecificationResult(specification);
      this.#waiting.set(specification.moduleId, earlier?.duration || estimatedFileMs(specification.moduleId));
    }
  }

  override onTestModuleQueued(module: TestModule): void {
    super.onTestModuleQueued(module);
    this.#runningSince.set(module.moduleId, Date.now());
  }

  override onTestModuleEnd(module: TestModule): void {
    super.onTestModuleEnd(module);
    this.#runningSince.delete(module.moduleId);
    this.#doneMs += this.#waiting.get(module.moduleId) ?? 0;
    this.#waiting.delete(module.moduleId);
    if (module.state() === 'failed') {
      this.#failed++;
      for (const message of failureMessages(module)) console.log(message);
    }
    const nowMs = Date.now();
    if (nowMs - this.#printedMs < printIntervalMs && this.#waiting.size > 0) return;
    this.#printedMs = nowMs;
    const elapsed_ms = nowMs - this.#startedMs;
    const waiting_ms = sum(this.#waiting.values());
    const running = [...this.#runningSince].map(([id, since]) => Math.min(nowMs - since, this.#waiting.get(id) ?? 0));
    const running_ms = sum(running);
    const left_ms = estimateLeftMs({
      elapsed_ms,
      finished_work_ms: this.#doneMs + running_ms,
      remaining_work_ms: waiting_ms - running_ms,
    });
    const done = this.#files - this.#waiting.size;
    console.log(progressLine({ elapsed_ms, left_ms, done, files: this.#files, failed: this.#failed }));
  }
}

const failureMessages = (module: TestModule): string[] => [
  ...module.errors().map(({ message }) => message),
  ...[...module.children.allTests('failed')].flatMap((test) =>
    (test.result().errors ?? []).map(({ message }) => `${test.fullName}: ${message}`),
  ),
];

const sum = (values: Iterable<number>) => [...values].reduce((total, value) => total + value, 0);

/** Estimates a file that was never run here. */
const estimatedFileMs = (path: string): number => {
  if (/\/test\/(scenarios|chaos|browser|outsiders|attacks)\//.test(path)) return 15_000;
  return /\/test\/(api|operations|properties)\//.test(path) ? 5_000 : 1_500;
};
