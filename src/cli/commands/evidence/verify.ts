/** `slipway verify`: checks a certificate or an export, with your public keys or the server's. */

import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type CertificateCheck, checkCertificate } from '../../../contract/evidence/integrity/certificate.ts';
import { readJsonLine } from '../../../contract/evidence/integrity/export-record.ts';
import { type ExportVerdict, verifyExport } from '../../../contract/evidence/integrity/verify-export.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { faultLine, keysFromServer } from '../../render/evidence/evidence-report.ts';
import { formatCount } from '../../render/text/text.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { appendValue } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { loadTrustedKeys, type TrustedKeys } from './trusted-keys.ts';

interface Options {
  publicKey: string[];
  expectHead?: string;
}

const maxCertificateBytes = 4 * 1024 * 1024;
const maxListedFaults = 50;

const invalidReasons: Record<Extract<CertificateCheck, { valid: false }>['why'], string> = {
  not_a_certificate: 'it is neither a release certificate nor an export',
  not_canonical: 'its bytes differ from those that were issued',
  not_signed: 'no trusted key signed it',
};

const readLines = (file: string): AsyncIterable<string> =>
  createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });

async function isExport(file: string): Promise<boolean> {
  for await (const line of readLines(file)) return readJsonLine(line) !== undefined;
  return false;
}

function refuseUnreadable(file: string): void {
  try {
    if (statSync(file).isFile()) return;
  } catch (error) {
    throw new CliFailure('usage', `Cannot read ${file}`, {
      why: error instanceof Error ? error.message : String(error),
      cause: error,
    });
  }
  throw new CliFailure('usage', `${file} is not a file`);
}

function certificateLines(check: CertificateCheck, { pinned }: TrustedKeys): string[] {
  if (!check.valid) return [`INVALID: ${invalidReasons[check.why]}.`];
  const { allocation_id, tenant, pool, released_at, release, proofs, residue, kid, installation } = check.certificate;
  const end =
    release === 'proven'
      ? `proven by ${proofs.map(({ kind, by }) => `${kind} (${by})`).join(', ')}`
      : release === 'no_machine'
        ? 'no machine had to be torn down'
        : `without proof; ${residue.length} left behind: ${residue.map(({ kind, resource }) => `${kind} ${resource}`).join(', ')}`;
  return [
    `Valid: ${allocation_id} of tenant ${tenant} in pool ${pool}, released ${released_at}, ${end}.`,
    `Issued by installation ${installation}, signed by ${kid}.`,
    ...(pinned ? [] : [keysFromServer]),
  ];
}

const isIntact = ({ faults, more_faults, unreadable, uncovered, checkpoints }: ExportVerdict): boolean =>
  faults.length + more_faults + unreadable + uncovered === 0 && checkpoints > 0;

function exportLines(verdict: ExportVerdict): string[] {
  const { rows, checkpoints, faults, more_faults, unreadable, uncovered, head, from } = verdict;
  const hidden = more_faults + Math.max(0, faults.length - maxListedFaults);
  return [
    ...faults.slice(0, maxListedFaults).map(faultLine),
    ...(hidden > 0 ? [`${formatCount(hidden, 'more fault')}.`] : []),
    ...(unreadable > 0 ? [`Not a record: ${formatCount(unreadable, 'line')}.`] : []),
    ...(uncovered > 0
      ? [`Without a checkpoint at the end: ${formatCount(uncovered, 'row')}. The file is cut off.`]
      : []),
    `${isIntact(verdict) ? 'Valid' : 'INVALID'}: ${formatCount(rows, 'row')} in ${formatCount(checkpoints, 'checkpoint')} from ${from ?? 'none'}.`,
    ...(head ? [`Head: checkpoint ${head.position}, ${head.hash}.`] : []),
  ];
}

export const makeVerify: MakeCommand = (cli) =>
  new SlipwayCommand('verify')
    .description(
      'Check a release certificate or an export (jsonl): offline with --public-key, or else with the keys of the server. Exits with 1 if anything differs.',
    )
    .argument('<file>', 'a certificate or an export')
    .option('--public-key <file>', 'a public key (PEM or JSON) kept elsewhere; may be repeated', appendValue, [])
    .option('--expect-head <hash>', 'for an export: a head that the export must contain')
    .examples(
      'slipway verify alloc_….certificate.json --public-key slipway.pem',
      'slipway verify evidence.jsonl --public-key slipway.pem',
    )
    .action(
      cli.run<Options>(async (session, { publicKey, expectHead }, [file = '']) => {
        refuseUnreadable(file);
        const trusted = await loadTrustedKeys(session, publicKey);
        const { out } = session.terminal;
        if (await isExport(file)) {
          const verdict = await verifyExport(() => readLines(file), trusted.keys, expectHead);
          if (session.json) printJson(out, { ...verdict, pinned: trusted.pinned });
          else printLines(out, exportLines(verdict));
          return isIntact(verdict) ? undefined : 'failed';
        }
        const check: CertificateCheck =
          statSync(file).size > maxCertificateBytes
            ? { valid: false, why: 'not_a_certificate' }
            : checkCertificate(readFileSync(file), trusted.keys);
        if (session.json) printJson(out, { ...check, pinned: trusted.pinned });
        else printLines(out, certificateLines(check, trusted));
        return check.valid ? undefined : 'failed';
      }),
    );
