/** `slipway bundle`: all that is known about an incident, without secrets, as one file to attach to a ticket. */
import { writeFileSync } from 'node:fs';
import { now } from '../../../base/clock.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { type Since, sinceOption, startOf } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { makeBundle } from './incident-bundle.ts';

interface Options {
  output?: string;
  since?: Since;
}

/** Nobody else on this host reads it, and nothing that is there is written over. */
function keep(path: string, archive: Buffer): void {
  try {
    writeFileSync(path, archive, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    throw new CliFailure('failed', `The bundle could not be written to ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name another file with --output.',
      cause: error,
    });
  }
}

const size = (bytes: number) => (bytes < 10_240 ? `${bytes} B` : `${Math.round(bytes / 1024)} KB`);

export const makeBundleCommand: MakeCommand = (cli) =>
  new SlipwayCommand('bundle')
    .description(
      'Write one archive about a thing to attach to a ticket: timeline, logs, explanation, versions and settings, with secrets struck out.',
    )
    .argument('<id>', 'a node, an allocation, an operation or a correlation id')
    .option('-o, --output <file>', 'where to; by default slipway-ID-TIME.tar.gz here')
    .addOption(sinceOption())
    .examples('slipway bundle node_…', 'slipway bundle alloc_… -o incident.tar.gz')
    .action(
      cli.run<Options>(async (session, { output, since }, [id = '']) => {
        const versions = { node: process.version, platform: `${process.platform} ${process.arch}` };
        const { archive, listed } = await makeBundle(session, id, {
          since: startOf(since, session.clock) ?? null,
          versions,
        });
        const stamp = now(session.clock)
          .toISOString()
          .replaceAll(/[-:]|\.\d+/g, '');
        const path = output ?? `slipway-${id.replaceAll(/[^\w.-]/g, '-')}-${stamp}.tar.gz`;
        keep(path, archive);
        const { out } = session.terminal;
        const { paint } = fitOf(out);
        if (session.json) printJson(out, { path, bytes: archive.length, files: listed });
        else
          printLines(out, [
            `${paint('good', '✔')} ${path}, ${size(archive.length)}`,
            ...listed.map(({ name, says, bytes, cut, missing }) => {
              const what = missing ?? `${size(bytes)}${cut ? ', not all of it' : ''}, ${says}`;
              return `  ${paint(missing ? 'quiet' : undefined, `${name.padEnd(22)} ${what}`)}`;
            }),
            '  Secrets were struck out; have a look yourself before you send it on.',
          ]);
        return undefined;
      }),
    );
