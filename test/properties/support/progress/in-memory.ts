/** Runs a history in memory, with rows changed as the store changes them: thousands cost little. */
import { moment } from '../../../../src/base/clock.ts';
import { quantileShares, type StepHistory } from '../../../../src/lifecycle/progress/expectation.ts';
import { createPercentFloor } from '../../../../src/lifecycle/progress/percent-floor.ts';
import { type ProgressFacts, progressOf, type StepFacts } from '../../../../src/lifecycle/progress/progress.ts';
import type { History, PlannedStep, ProgressEvent } from './events.ts';
import { createWatcher } from './watcher.ts';

const startMs = Date.UTC(2026, 0, 1);

function historyOf(took: number[]): StepHistory | null {
  if (took.length === 0) return null;
  const sorted = [...took].sort((a, b) => a - b);
  const quantiles = quantileShares.map((share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0);
  return { samples: sorted.length, quantiles };
}

const stepOf = ({ usual_seconds, took }: PlannedStep, index: number): StepFacts => ({
  ordinal: index + 1,
  name: `step-${index + 1}`,
  label: '',
  status: 'pending',
  usual_seconds,
  expected: historyOf(took),
  started_at: null,
  retry_at: null,
});

export function runInMemory({ plan, events }: History): void {
  let nowMs = startMs;
  /** The latest time that was shown. */
  let latestMs = startMs;
  let shown = createPercentFloor();
  const watcher = createWatcher();
  const facts: ProgressFacts = {
    status: 'running',
    steps: plan.map(stepOf),
    started_at: moment(startMs),
    finished_at: null,
    created_at: moment(startMs),
    advanced_at: null,
    retry_at: null,
    patient_until: null,
    percent: 0,
    now: moment(startMs),
  };
  const isOpen = () => facts.status === 'running' || facts.status === 'cancelling';
  const current = () => facts.steps.find((step) => step.status !== 'done' && step.status !== 'skipped');
  const settle = () => {
    facts.percent = shown.raise('op', progressOf(facts).percent);
  };
  const end = (status: ProgressFacts['status']) => {
    settle();
    if (status === 'succeeded') for (const step of facts.steps) if (step.status === 'pending') step.status = 'skipped';
    facts.status = status;
    facts.finished_at = facts.now;
  };

  const moves: { [K in ProgressEvent['kind']]: (event: Extract<ProgressEvent, { kind: K }>) => void } = {
    'time passes': ({ seconds }) => {
      nowMs += seconds * 1000;
    },
    'the clock is set back': ({ seconds }) => {
      nowMs -= seconds * 1000;
    },
    // The weights of its steps were fixed when it was queued.
    'other operations end': () => {},
    'it reports': ({ retry }) => {
      if (!isOpen()) return;
      facts.advanced_at = facts.now;
      facts.retry_at = retry ? moment(nowMs + 20_000) : null;
      settle();
    },
    // The process loses the percentage it showed, which only a clock behind the shown time could
    // reveal.
    'a server restarts': () => {
      nowMs = Math.max(nowMs, latestMs);
      shown = createPercentFloor();
    },
    'another server takes over': () => {
      nowMs = Math.max(nowMs, latestMs);
      shown = createPercentFloor();
    },
    'its step begins': () => {
      const step = current();
      if (!isOpen() || !step) return;
      step.status = 'running';
      step.started_at ??= facts.now;
      step.retry_at = null;
      facts.advanced_at = facts.now;
      facts.retry_at = null;
    },
    'a try fails': () => {
      const step = current();
      if (!isOpen() || step?.status !== 'running') return;
      step.status = 'waiting';
      step.retry_at = moment(nowMs + 5_000);
    },
    'its step is done': () => {
      const step = current();
      if (!isOpen() || !step || step.status === 'pending') return;
      step.status = 'done';
      facts.advanced_at = facts.now;
    },
    'its step is not needed': () => {
      const step = current();
      if (isOpen() && step?.status === 'pending') step.status = 'skipped';
    },
    'it fails': () => {
      const step = current();
      if (!isOpen() || !step) return;
      step.status = 'failed';
      end('failed');
    },
    'it is cancelled': () => {
      if (facts.status === 'running') facts.status = 'cancelling';
      else if (facts.status === 'cancelling') end('cancelled');
    },
    'it is tried again': () => {
      if (facts.status !== 'failed') return;
      facts.status = 'running';
      facts.finished_at = null;
      for (const step of facts.steps)
        if (['failed', 'running', 'waiting'].includes(step.status))
          Object.assign(step, { status: 'pending', started_at: null, retry_at: null });
    },
    'it succeeds': () => {
      if (facts.status === 'running' && !facts.steps.some(({ status }) => status === 'running' || status === 'waiting'))
        end('succeeded');
    },
  };

  const check = () => {
    latestMs = Math.max(latestMs, nowMs);
    facts.now = moment(nowMs);
    const progress = progressOf(facts);
    const percent = shown.raise('op', progress.percent);
    watcher.check({ ...progress, percent, status: facts.status }, facts);
  };
  check();
  for (const event of events) {
    facts.now = moment(nowMs);
    (moves[event.kind] as (event: ProgressEvent) => void)(event);
    check();
  }
}
