/** `slipway act`: does something about a machine or an allocation, with a reason that is kept. */
import { randomUUID } from 'node:crypto';
import { Argument, Option } from 'commander';
import { type NodeActionName, nodeActionNames } from '../../../lifecycle/actions/actions.ts';
import { type AllocationActionName, allocationActionNames } from '../../../lifecycle/actions/allocation-actions.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { nodeBehind } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { namedThing } from '../../names/named-thing.ts';
import { type ActionName, actedLines, enrolLines } from '../../render/machines/actions.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { dryRunOption, duration } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

interface Options {
  reason: string;
  seconds?: number;
  then?: 'hold' | 'retire';
  fingerprint?: string;
  dryRun?: boolean;
}

const names = [...new Set<ActionName>([...nodeActionNames, ...allocationActionNames])];
const isForAllocations = (action: string): action is AllocationActionName =>
  allocationActionNames.some((name) => name === action);
const isForNodes = (action: string): action is NodeActionName => nodeActionNames.some((name) => name === action);

interface ActionBody {
  reason: string;
  dry_run?: boolean;
  seconds?: number;
  fingerprint?: string;
}

/** An allocation is acted on itself; what only a machine takes is done to the machine behind it. */
async function act(session: Session, word: string, action: string, body: ActionBody, then: Options['then']) {
  const idempotency_key = randomUUID();
  const { kind, id } = await namedThing(session, word);
  if (kind === 'allocation' && isForAllocations(action))
    return session.call('allocation-act', { params: { id, action }, body, idempotency_key });
  if (!isForNodes(action))
    throw new CliFailure('usage', `${action} is for allocations, and ${id} is none`, {
      remedy: `See what can be done about it: ${session.commandLine('actions', id)}`,
    });
  const { node_id } = await nodeBehind(session, id, `it cannot be told to ${action}`);
  const nodeBody = { ...body, ...(then && { drain_then: then }) };
  return session.call('node-act', { params: { id: node_id, action }, body: nodeBody, idempotency_key });
}

export const makeAct: MakeCommand = (cli) =>
  new SlipwayCommand('act')
    .description(
      'Do something about a node or an allocation. It is refused where it is not open; slipway actions says what is.',
    )
    .argument('<id>', 'the allocation, the node, or an operation on it')
    .addArgument(new Argument('<action>', 'what to do').choices(names))
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
    .option('--seconds <time>', 'extend-deadline: by how much, like 600 or 10m', duration)
    .addOption(new Option('--then <end>', 'drain: what becomes of it once it is empty').choices(['hold', 'retire']))
    .option(
      '--fingerprint <hex>',
      'accept-key: fingerprint of the key to accept. --dry-run shows it; compare it with the machine first',
    )
    .addOption(dryRunOption('only say what would come of it'))
    .examples(
      'slipway act node_… extend-deadline --seconds 10m --reason "the image is large today"',
      'slipway act node_… drain --then retire --reason "the host is replaced"',
      'slipway act node_… apply-held-verdict --dry-run',
      'slipway act node_… reimage --reason "a new kernel"',
      'slipway act alloc_… retry-release --reason "the disk is writable again"',
    )
    .action(
      cli.run<Options>(async (session, { reason, seconds, then, fingerprint, dryRun }, [id = '', action = '']) => {
        const body = {
          reason,
          ...(dryRun && { dry_run: true }),
          ...(seconds !== undefined && { seconds }),
          ...(fingerprint !== undefined && { fingerprint }),
        };
        const acted = await act(session, id, action, body, then);
        const { out } = session.terminal;
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        if (session.json) printJson(out, acted);
        else {
          printLines(out, actedLines(action, acted, context));
          const token = 'enrollment_token' in acted ? acted.enrollment_token : undefined;
          if (token) printLines(out, enrolLines(token, session.server, context));
        }
        return undefined;
      }),
    );
