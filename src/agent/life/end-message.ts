/**
 * The final message of an agent that ended because of something a person must fix. It names the
 * problem, its cause and a remedy.
 */
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { pathFaults } from '../../contract/errors/path-faults.ts';
import type { AgentEnd } from './exit.ts';

export interface Where {
  server_url: string;
  dir: string;
}

interface Message {
  what(at: Where): string;
  remedy(at: Where): string;
}

const newJoinToken = 'slipway join-token create POOL';

/** Failures before the agent has started. */
const startMessages: Record<string, Message> = {
  usage: {
    what: () => 'invalid arguments',
    remedy: () => 'See slipway agent --help.',
  },
  occupied: {
    what: ({ dir }) => `another agent has ${dir}`,
    remedy: () => 'Stop that one, or give this one a directory of its own with --dir.',
  },
};

/** Error codes of the operating system if a directory cannot be created, locked or written. */
const directoryErrors = ['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOENT', 'ENOSPC'];
const directoryMessage: Message = {
  what: ({ dir }) => `it cannot keep anything in ${dir}`,
  remedy: () => 'Let the user that it runs as write there, or name another directory with --dir.',
};

const unreached = (remedy: string): Message => ({
  what: ({ server_url }) => `${server_url} was not reached in time`,
  remedy: ({ server_url }) => `${remedy} slipway agent doctor --server ${server_url} says which layer fails.`,
});

/** By the control plane's answer, if that says more than the agent's exit code. */
const refusalMessages: Record<string, Message> = {
  join_token_invalid: {
    what: ({ server_url }) => `${server_url} does not take this join token`,
    remedy: () =>
      `Make another (${newJoinToken}) and start the agent with it: --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  join_token_expired: {
    what: () => 'its join token has expired',
    remedy: () =>
      `Make another (${newJoinToken}) and start the agent with it: --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  join_token_spent: {
    what: () => 'no uses of its join token are left',
    remedy: () =>
      `Make another (${newJoinToken}) and start the agent with it: --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  identity_unproven: {
    what: ({ dir }) => `a machine of its name is known, and ${dir} holds neither its credential nor its key`,
    remedy: () =>
      'Start it with its former directory, let the node enrol again (slipway act NODE re-enroll), or give it another --name.',
  },
  pool_full: {
    what: () => 'its pool may hold no more machines',
    remedy: () => 'Raise `max_nodes` of the pool, or retire a node of it: slipway act NODE retire',
  },
  enrollment_invalid: {
    what: ({ server_url }) => `${server_url} does not take this enrolment token`,
    remedy: () =>
      'Expect the machine anew, or let it enrol again (slipway act NODE re-enroll), and start the agent with the token that this gives.',
  },
  pool_not_found: {
    what: () => 'the pool that this join token is for is not there',
    remedy: () => `Declare it again (slipway apply -f FILE), or join another with a token of that: ${newJoinToken}`,
  },
  name_taken: {
    what: () => 'another machine has its name',
    remedy: () => 'Give this one another --name, or retire the node that has it: slipway act NODE retire',
  },
  token_missing: {
    what: ({ dir }) => `it has no token to register with, and ${dir} holds no credential`,
    remedy: () => `Give it a token with --join-token-file or SLIPWAY_JOIN_TOKEN; one is made by ${newJoinToken}`,
  },
};

const endMessages: Record<string, Message> = {
  setup_failed: {
    what: () => 'its set-up failed',
    remedy: ({ dir }) =>
      `Mend \`setup\` of its pool or of its file; the last lines are in agent.exit.json in ${dir}. Then start it again.`,
  },
  prerequisite_missing: {
    what: () => 'this machine lacks what it must have',
    remedy: () => 'Install that, or take it out of `requires` of the pool, and start the agent again.',
  },
  registration_deadline: {
    what: () => 'it was not registered in time',
    remedy: () => 'Give it more time (slipway act NODE extend-deadline) or retry the allocation.',
  },
  registration_refused: {
    what: ({ server_url }) => `${server_url} refuses to register it`,
    remedy: ({ server_url }) =>
      `Mend what it names; slipway agent doctor --server ${server_url} says how far this machine comes.`,
  },
  credential_unknown: {
    what: ({ server_url, dir }) => `${server_url} does not know the credential in ${dir}`,
    remedy: () =>
      'Let the machine enrol again (slipway act NODE re-enroll) with the token that this gives, or start the agent with a join token.',
  },
  agent_crashed: {
    what: () => 'internal error',
    remedy: ({ dir }) => `Start it again, and report what agent.exit.json in ${dir} says.`,
  },
};

const messagesByCode = new Map<string, Message>([
  ...Object.entries(pathFaults).map(([code, { remedy }]) => [code, unreached(remedy)] as const),
  ...directoryErrors.map((code) => [code, directoryMessage] as const),
  ...Object.entries({ ...startMessages, ...refusalMessages, ...endMessages }),
]);

const maxLength = 1_000;

/**
 * Parts of the text come from others: keep it on one line, redact secrets, remove control
 * characters.
 */
const clean = (text: string) =>
  builtInRedactor.text(text.split('\n')[0]?.slice(0, maxLength) ?? '').replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ');

/** Returns null for a code that needs no action. */
export function messageFor(code: string, why: string, at: Where): string | null {
  const words = messagesByCode.get(code);
  if (!words) return null;
  const where = { server_url: clean(at.server_url), dir: clean(at.dir) };
  return `slipway agent: ${words.what(where)}: ${clean(why)}\n  What to do: ${words.remedy(where)}\n`;
}

export function endMessage({ code, reason, failure }: AgentEnd, at: Where): string | null {
  const ofFailure = failure && messageFor(failure.code, failure.detail || reason, at);
  return ofFailure ?? messageFor(code, reason, at);
}
