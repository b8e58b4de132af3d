/** `slipway doctor`: which layer fails first between here and a machine, and what to do about it. */
import { InvalidArgumentError } from 'commander';
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused, ServerUnreachable } from '../../../contract/client.ts';
import type { LayerReport, Patient } from '../../../doctor/examination.ts';
import { examine } from '../../../doctor/examine.ts';
import { closingLines, examinationJson, exitOf, layerLine } from '../../../doctor/render.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { isAllocation, nodeBehind } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { momentInFull } from '../../render/text/duration.ts';
import { printable, wrap } from '../../render/text/text.ts';
import { CliFailure, Interrupted } from '../../terminal/failure.ts';
import { duration } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { kindOfId } from '../../wait/subject.ts';

interface Options {
  patience: number;
}

const mostPatienceSeconds = 60;

function patience(text: string): number {
  const seconds = duration(text);
  if (seconds <= 0 || seconds > mostPatienceSeconds)
    throw new InvalidArgumentError(`More than 0 and at most ${mostPatienceSeconds} seconds.`);
  return seconds;
}

/** An address rather than an id: it names a scheme, a port or a domain. */
const isAddress = (text: string) => kindOfId(text) === null && /^[a-z]+:\/\/|[.:]|^localhost$/i.test(text);

const nothingToExamine = (session: Session, { allocation_id, released_at, reason }: Allocation) =>
  new CliFailure('failed', `${allocation_id} is released, so it has no machine to examine`, {
    why: `It was given back${released_at ? ` at ${momentInFull(released_at)}` : ''}${reason ? `: ${printable(reason)}` : '.'}`,
    remedy: `See what became of it: ${session.commandLine('explain', allocation_id)}`,
  });

/** Null where the server cannot be asked which machine is behind it: then the examination ends before one is needed. */
async function nodeNamed(session: Session, id: string): Promise<string | null> {
  if (kindOfId(id) === 'node') return id;
  try {
    const { node_id, through } = await nodeBehind(session, id, 'there is nothing behind the server to examine');
    if (isAllocation(through) && through.status === 'released') throw nothingToExamine(session, through);
    return node_id;
  } catch (error) {
    const unasked =
      error instanceof ServerUnreachable || (error instanceof RequestRefused && error.problem.status === 401);
    if (unasked) return null;
    throw error;
  }
}

async function examineAndTell(session: Session, patient: Patient): Promise<LayerReport[]> {
  const { out } = session.terminal;
  const fit = fitOf(out);
  const reports: LayerReport[] = [];
  for await (const report of examine(patient)) {
    reports.push(report);
    if (!session.json) printLines(out, [layerLine({ ...report, says: printable(report.says) }, fit.paint)]);
  }
  return reports;
}

export const makeDoctor: MakeCommand = (cli) =>
  new SlipwayCommand('doctor')
    .description(
      'Find the first layer that fails between here and a machine: the name, the connection, TLS and who vouches for it, who answers, ' +
        'the token, then the node’s fence and heartbeat, and a ping that its agent has to claim and answer.',
    )
    .argument('[id|url]', 'any id or name that leads to a machine, or the address of a server; nothing: --server')
    .option('--patience <time>', 'how long each layer may take', patience, 10)
    .examples(
      'slipway doctor',
      'slipway doctor https://slipway.example.com --ca ca.pem',
      'slipway doctor node_…',
      'slipway doctor node_… --json',
    )
    .action(
      cli.run<Options>(
        async (session, options, [what = '']) => {
          const id = what === '' || isAddress(what) ? null : await nodeNamed(session, what);
          const { token = null, ca } = session.connection;
          const reports = await examineAndTell(session, {
            url: new URL(session.server),
            ca,
            known_keys: null,
            caller: { kind: 'person', token, node_id: id },
            correlation_id: session.correlation_id,
            clock: session.clock,
            signal: session.signal,
            patience_seconds: options.patience,
          });
          if (session.signal.aborted) throw new Interrupted();
          const { out } = session.terminal;
          const fit = fitOf(out);
          if (session.json) printJson(out, examinationJson(session.server, reports, session.correlation_id));
          else {
            const lines = closingLines(reports, fit.paint);
            printLines(out, ['', ...lines.flatMap((line) => wrap(line, fit.width))]);
          }
          return exitOf(reports);
        },
        ([what = '']) => (isAddress(what) ? what : undefined),
      ),
    );
