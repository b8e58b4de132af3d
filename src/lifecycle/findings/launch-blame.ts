/** Finds the step in which a deadline passed, its last error, and the layer that owns it. */
import { phaseOf, stageOf } from '../progress/progress.ts';

export interface RecordedStepError {
  code: string;
  owner_layer: string;
  message: string;
}

/** The first unfinished step of an operation. */
export interface OpenStep {
  /** For example `launch:pull_image` or `register`. */
  name: string;
  /** The last error of the step, or null. */
  error: RecordedStepError | null;
  /** The last message of the operation. */
  reported: string | null;
  is_queued: boolean;
}

export interface LaunchStep extends OpenStep {
  /** The owner by the driver's plan, used if the step has no error. */
  owner_layer: string | null;
}

export interface Blame {
  step: string;
  code: string | null;
  /** Null if no layer is known to own the step. */
  owner_layer: string | null;
  says: string;
}

/** In these stages the machine runs, and its agent must report. */
const agentStages: readonly string[] = ['register', 'start'];
const maxMessage = 500;

const truncate = (text: string) => (text.length > maxMessage ? `${text.slice(0, maxMessage)}…` : text);

const ownerOf = ({ name, error, is_queued, owner_layer }: LaunchStep): string => {
  if (error) return error.owner_layer;
  if (is_queued) return 'control_plane';
  if (agentStages.includes(stageOf(name))) return 'node';
  return stageOf(name) === 'launch' ? (owner_layer ?? 'provider') : 'control_plane';
};

function detailOf({ error, reported, is_queued }: OpenStep): string {
  if (error) return truncate(error.message);
  if (is_queued) return 'no replica has started the operation';
  return reported ? `no error; last reported: ${truncate(reported)}` : 'no error and no answer yet';
}

/** `step` is null for machines that no operation launches. */
export function findLaunchBlame(step: LaunchStep | null, waiting_for: string | null): Blame {
  const neverRegistered = {
    step: 'register',
    code: null,
    owner_layer: 'node',
    says: `provisioning timed out: ${step ? 'launched but' : 'the machine'} never registered`,
  };
  if (waiting_for === 'capacity') {
    const name = step ? phaseOf(step.name) : 'launch';
    const code = step?.error?.code ?? 'no_capacity';
    return {
      step: name,
      code,
      owner_layer: 'provider',
      says: 'provisioning timed out: the provider granted no capacity',
    };
  }
  if (!step || (agentStages.includes(stageOf(step.name)) && !step.error && !step.is_queued)) return neverRegistered;
  const [name, owner_layer] = [phaseOf(step.name), ownerOf(step)];
  return {
    step: name,
    code: step.error?.code ?? null,
    owner_layer,
    says: `provisioning timed out at step ${name} (owner ${owner_layer}): ${detailOf(step)}`,
  };
}

/** `overran` says which operation was late; `step` is null if it has no unfinished step. */
export function findCleanupBlame(step: OpenStep | null | undefined, overran: string): Blame | null {
  if (!step) return null;
  const { name, error, is_queued } = step;
  const owner_layer = error?.owner_layer ?? (is_queued ? 'control_plane' : null);
  const owner = owner_layer === null ? '' : ` (owner ${owner_layer})`;
  return {
    step: phaseOf(name),
    code: error?.code ?? null,
    owner_layer,
    says: `${overran} at step ${phaseOf(name)}${owner}: ${detailOf(step)}`,
  };
}
