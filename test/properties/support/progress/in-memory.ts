/** Runs a history in memory and changes rows as the store does, so that thousands run fast. */
import { moment } from '../../../../src/base/clock.ts';
import { quantileShares, type StepHistory } from '../../../../src/lifecycle/progress/expectation.ts';
import { createPercentFloor } from '../../../../src/lifecycle/progress/percent-floor.ts';
import { type ProgressFacts, progressOf, type StepFacts } from '../../../../src/lifecycle/progress/progress.ts';
import type { History, PlannedStep, ProgressEvent } from './events.ts';
import { createWatcher } from './watcher.ts';

const startMs = Date.UTC(2026, 0, 1);

function historyOf(sampleSeconds: number[]): StepHistory | null {
  if (sampleSeconds.length === 0) return null;
  const sortedSeconds = [...sampleSeconds].sort((a, b) => a - b);
  const quantiles = quantileShares.map((share) => sortedSeconds[Math.round(share * (sortedSeconds.length - 1))] ?? 0);
  return { samples: sortedSeconds.length, quantiles };
}

const stepOf = ({ usual_seconds, sample_seconds }: PlannedStep, index: number): StepFacts => ({
  ordinal: index + 1,
  name: `step-${index + 1}`,
  label: '',
  status: 'pending',
  usual_seconds,
  expected: historyOf(sample_seconds),
  started_at: null,
  retry_at: null,
  tries: 0,
  error: null,
});

const error = { code: 'broken', owner_layer: 'node', message: 'broken' };

export function runInMemory({ plan, events }: History): void {
  let nowMs = startMs;
  /** The latest time at which progress was shown. */
  let latestMs = startMs;
  let floor = createPercentFloor();
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
    failing_since: null,
    failed_seconds: 0,
    percent: 0,
    now: moment(startMs),
  };
  const isOpen = () => facts.status === 'running' || facts.status === 'cancelling';
  const currentStep = () => facts.steps.find((step) => step.status !== 'done' && step.status !== 'skipped');
  const savePercent = () => {
    facts.percent = floor.raise('op', progressOf(facts).percent);
  };
  const setError = (step: StepFacts, next: StepFacts['error']) => {
    if (next && !step.error) {
      savePercent();
      facts.failing_since = facts.now;
    }
    if (!next && facts.failing_since) {
      facts.failed_seconds += Math.max(0, facts.now.getTime() - facts.failing_since.getTime()) / 1000;
      facts.failing_since = null;
    }
    step.error = next;
  };
  const endOperation = (status: ProgressFacts['status']) => {
    savePercent();
    if (status === 'succeeded') for (const step of facts.steps) if (step.status === 'pending') step.status = 'skipped';
    facts.status = status;
    facts.finished_at = facts.now;
  };

  const effects: { [K in ProgressEvent['kind']]: (event: Extract<ProgressEvent, { kind: K }>) => void } = {
    'time passes': ({ seconds }) => {
      nowMs += seconds * 1000;
    },
    'the clock is set back': ({ seconds }) => {
      nowMs -= seconds * 1000;
    },
    // The weights of an operation's steps are fixed when it is queued, so samples change nothing.
    'other operations end': () => {},
    'the operation reports': ({ retry }) => {
      if (!isOpen()) return;
      facts.advanced_at = facts.now;
      facts.retry_at = retry ? moment(nowMs + 20_000) : null;
      savePercent();
    },
    // The new process starts without the percentage that was shown. A clock behind the last shown
    // time could make the percentage fall, so the clock of the new process is not behind that time.
    'a server restarts': () => {
      nowMs = Math.max(nowMs, latestMs);
      floor = createPercentFloor();
    },
    'another server takes over': () => {
      nowMs = Math.max(nowMs, latestMs);
      floor = createPercentFloor();
    },
    'the step begins': () => {
      const step = currentStep();
      if (!isOpen() || !step) return;
      if (step.status === 'pending') Object.assign(facts, { failing_since: null, failed_seconds: 0 });
      step.status = 'running';
      step.started_at ??= facts.now;
      step.retry_at = null;
      facts.advanced_at = facts.now;
      facts.retry_at = null;
    },
    'a try fails': () => {
      const step = currentStep();
      if (!isOpen() || step?.status !== 'running') return;
      step.status = 'waiting';
      setError(step, error);
      step.retry_at = moment(nowMs + 5_000);
    },
    'the step reports an error': () => {
      const step = currentStep();
      if (isOpen() && step && step.status !== 'pending') setError(step, error);
    },
    'the step recovers': () => {
      const step = currentStep();
      if (isOpen() && step && step.status !== 'pending') setError(step, null);
    },
    'the step is done': () => {
      const step = currentStep();
      if (!isOpen() || !step || step.status === 'pending') return;
      setError(step, null);
      step.status = 'done';
      facts.advanced_at = facts.now;
    },
    'the step is skipped': () => {
      const step = currentStep();
      if (isOpen() && step?.status === 'pending') step.status = 'skipped';
    },
    'the operation fails': () => {
      const step = currentStep();
      if (!isOpen() || !step) return;
      step.status = 'failed';
      setError(step, error);
      endOperation('failed');
    },
    'the operation is cancelled': () => {
      if (facts.status === 'running') facts.status = 'cancelling';
      else if (facts.status === 'cancelling') endOperation('cancelled');
    },
    'the operation is retried': () => {
      if (facts.status !== 'failed') return;
      facts.status = 'running';
      facts.finished_at = null;
      for (const step of facts.steps)
        if (['failed', 'running', 'waiting'].includes(step.status))
          Object.assign(step, { status: 'pending', started_at: null, retry_at: null, error: null });
    },
    'the operation succeeds': () => {
      if (facts.status === 'running' && !facts.steps.some(({ status }) => status === 'running' || status === 'waiting'))
        endOperation('succeeded');
    },
  };

  const check = () => {
    latestMs = Math.max(latestMs, nowMs);
    facts.now = moment(nowMs);
    const progress = progressOf(facts);
    const percent = floor.raise('op', progress.percent);
    watcher.check({ ...progress, percent, status: facts.status }, facts);
  };
  check();
  for (const event of events) {
    facts.now = moment(nowMs);
    (effects[event.kind] as (event: ProgressEvent) => void)(event);
    check();
  }
}
