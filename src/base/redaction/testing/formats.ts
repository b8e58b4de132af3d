/**
 * Samples of real secret formats with made-up values. They follow the issuers' descriptions, not
 * the patterns under test. They are assembled at run time, so that secret scanners do not flag this
 * file.
 */

const alphabets = {
  hex: '0123456789abcdef',
  lower: 'abcdefghijklmnopqrstuvwxyz0123456789',
  upper: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567',
  alnum: 'aB3dE5fG7hJ9kLmNpQ2rS4tU6vW8xYz0',
  word: 'aB3dE5fG7hJ9kL-mNpQ2rS4tU6vW8xYz_0',
  digits: '0123456789',
} as const;

/**
 * Returns random-looking text. The same arguments always give the same text; each format passes its
 * own seed.
 */
export function tail(kind: keyof typeof alphabets, length: number, seed: number): string {
  const letters = alphabets[kind];
  let state = (seed + 1) * 2_654_435_761;
  let text = '';
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    text += letters.charAt((state >>> 16) % letters.length);
  }
  // The text begins and ends with a letter or digit, because a pattern may leave out a separator at
  // either end.
  return text.replace(/^[-_]/, 'a').replace(/[-_]$/, 'z');
}

type Format = readonly [name: string, prefix: string, kind: keyof typeof alphabets, length: number];

const formats: readonly Format[] = [
  ['GitHub personal token', 'ghp_', 'alnum', 36],
  ['GitHub OAuth token', 'gho_', 'alnum', 36],
  ['GitHub user-to-server token', 'ghu_', 'alnum', 36],
  ['GitHub server-to-server token', 'ghs_', 'alnum', 36],
  ['GitHub refresh token', 'ghr_', 'alnum', 76],
  ['GitHub fine-grained token', `github_${'pat'}_`, 'alnum', 82],
  ['GitLab personal token', 'glpat-', 'word', 20],
  ['GitLab deploy token', 'gldt-', 'word', 20],
  ['GitLab runner token', 'glrt-', 'word', 20],
  ['GitLab trigger token', 'glptt-', 'hex', 40],
  ['GitLab feed token', 'glft-', 'word', 20],
  ['GitLab SCIM token', 'glsoat-', 'word', 20],
  ['GitLab mail token', 'glimt-', 'word', 25],
  ['GitLab agent token', 'glagent-', 'word', 50],
  ['GitLab job token', 'glcbt-', 'word', 24],
  ['GitLab feature flag token', 'glffct-', 'word', 20],
  ['GitLab OAuth secret', 'gloas-', 'hex', 64],
  ['GitLab runner registration', 'GR1348941', 'word', 20],
  ['Atlassian API token', 'ATATT3', 'word', 186],
  ['Bitbucket app password', 'ATBB', 'alnum', 32],
  ['Buildkite token', 'bkua_', 'hex', 40],
  ['CircleCI token', 'CCIPAT_', 'word', 64],
  ['Sourcegraph token', 'sgp_', 'hex', 40],
  ['SonarQube user token', 'squ_', 'hex', 40],
  ['Octopus Deploy key', 'API-', 'upper', 26],
  ['Prefect token', 'pnu_', 'alnum', 36],
  ['AWS access key', 'AKIA', 'upper', 16],
  ['AWS temporary key', 'ASIA', 'upper', 16],
  ['AWS bearer key', 'ABIA', 'upper', 16],
  ['AWS context key', 'ACCA', 'upper', 16],
  ['Google API key', 'AIza', 'word', 35],
  ['Google OAuth secret', 'GOCSPX-', 'word', 28],
  ['Google access token', 'ya29.', 'word', 120],
  ['Google refresh token', '1//0', 'word', 60],
  ['Alibaba access key', 'LTAI', 'alnum', 20],
  ['Tencent secret id', 'AKID', 'alnum', 32],
  ['DigitalOcean personal token', 'dop_v1_', 'hex', 64],
  ['DigitalOcean OAuth token', 'doo_v1_', 'hex', 64],
  ['DigitalOcean refresh token', 'dor_v1_', 'hex', 64],
  ['Heroku key', 'HRKU-', 'word', 60],
  ['Fly.io token', 'fo1_', 'word', 43],
  ['Fly.io macaroon', 'fm2_', 'alnum', 120],
  ['Scalingo token', 'tk-us-', 'word', 48],
  ['Netlify token', 'nfp_', 'alnum', 36],
  ['Render key', 'rnd_', 'alnum', 28],
  ['Supabase token', 'sbp_', 'hex', 40],
  ['PlanetScale token', 'pscale_tkn_', 'word', 43],
  ['PlanetScale password', 'pscale_pw_', 'word', 43],
  ['Cloudflare origin key', 'v1.0-', 'hex', 146],
  ['Vault service token', 'hvs.', 'word', 90],
  ['Vault batch token', 'hvb.', 'word', 138],
  ['Docker Hub token', `dckr_${'pat'}_`, 'word', 27],
  ['Artifactory key', 'AKCp', 'alnum', 69],
  ['Artifactory reference token', 'cmVmd', 'alnum', 59],
  ['Databricks token', 'dapi', 'hex', 32],
  ['Doppler token', 'dp.pt.', 'alnum', 43],
  ['Dynatrace token', `dt0c01.${tail('upper', 24, 7)}.`, 'upper', 64],
  ['Pulumi token', 'pul-', 'hex', 40],
  ['OpenShift token', 'sha256~', 'word', 43],
  ['Tailscale key', 'tskey-auth-', 'alnum', 40],
  ['1Password service token', 'ops_eyJ', 'alnum', 250],
  ['1Password secret key', 'A3-ASWWYB-798JRY-', 'upper', 20],
  ['age key', 'AGE-SECRET-KEY-1', 'upper', 58],
  ['Defined Networking token', 'dnkey-', 'alnum', 79],
  ['Infracost key', 'ico-', 'alnum', 32],
  ['Notion token', 'ntn_', 'alnum', 46],
  ['Notion integration secret', 'secret_', 'alnum', 43],
  ['k3s join token', 'K10', 'hex', 64],
  ['Grafana cloud token', 'glc_', 'alnum', 60],
  ['Grafana service account', 'glsa_', 'alnum', 41],
  ['New Relic user key', 'NRAK-', 'upper', 27],
  ['New Relic insert key', 'NRII-', 'word', 32],
  ['New Relic browser key', 'NRJS-', 'hex', 19],
  ['Sentry organization token', 'sntrys_', 'alnum', 120],
  ['Sentry user token', 'sntryu_', 'hex', 64],
  ['LangSmith key', 'lsv2_pt_', 'hex', 43],
  ['PostHog key', 'phx_', 'alnum', 43],
  ['OpenAI key', 'sk-', 'alnum', 48],
  ['OpenAI project key', 'sk-proj-', 'word', 124],
  ['OpenAI service key', 'sk-svcacct-', 'word', 124],
  ['OpenRouter key', 'sk-or-v1-', 'hex', 64],
  ['Anthropic key', 'sk-ant-api03-', 'word', 95],
  ['Hugging Face token', 'hf_', 'alnum', 34],
  ['Hugging Face organization token', 'api_org_', 'alnum', 34],
  ['Groq key', 'gsk_', 'alnum', 52],
  ['xAI key', 'xai-', 'alnum', 80],
  ['Perplexity key', 'pplx-', 'alnum', 48],
  ['Replicate token', 'r8_', 'alnum', 37],
  ['Fireworks key', 'fw_', 'alnum', 24],
  ['NVIDIA key', 'nvapi-', 'word', 64],
  ['Stripe live key', 'sk_live_', 'alnum', 24],
  ['Stripe test key', 'sk_test_', 'alnum', 24],
  ['Stripe restricted key', 'rk_live_', 'alnum', 24],
  ['Stripe webhook secret', 'whsec_', 'alnum', 32],
  ['Shopify access token', 'shpat_', 'hex', 32],
  ['Shopify custom token', 'shpca_', 'hex', 32],
  ['Shopify private token', 'shppa_', 'hex', 32],
  ['Shopify shared secret', 'shpss_', 'hex', 32],
  ['Square token', 'sq0atp-', 'word', 22],
  ['Square OAuth secret', 'sq0csp-', 'word', 43],
  ['Square access token', 'EAAA', 'word', 60],
  ['Plaid access token', 'access-production-', 'hex', 36],
  ['Flutterwave key', 'FLWSECK_TEST-', 'hex', 32],
  ['Shippo token', 'shippo_live_', 'hex', 40],
  ['Duffel token', 'duffel_live_', 'word', 43],
  ['EasyPost key', 'EZAK', 'alnum', 54],
  ['Slack bot token', `xoxb-${tail('digits', 12, 3)}-`, 'alnum', 24],
  ['Slack user token', `xoxp-${tail('digits', 12, 4)}-`, 'alnum', 32],
  ['Slack app token', 'xapp-1-A0123-', 'hex', 64],
  ['Slack configuration token', 'xoxe-1-', 'alnum', 146],
  ['SendGrid key', `SG.${tail('alnum', 22, 5)}.`, 'word', 43],
  ['Brevo key', 'xkeysib-', 'hex', 80],
  ['Mailgun key', 'key-', 'hex', 32],
  ['Mailchimp key', '', 'hex', 32],
  ['Resend key', `re_${tail('alnum', 8, 6)}_`, 'alnum', 24],
  ['Facebook page token', 'EAAC', 'alnum', 120],
  ['FCM server key', `AAAA${tail('alnum', 7, 8)}:`, 'word', 140],
  ['Telegram bot token', `${tail('digits', 10, 9)}:AA`, 'word', 33],
  ['Twilio key', 'SK', 'hex', 32],
  ['Airtable token', `pat${tail('alnum', 14, 10)}.`, 'hex', 64],
  ['npm token', 'npm_', 'alnum', 36],
  ['PyPI token', 'pypi-AgEIcHlwaS5vcmc', 'word', 150],
  ['RubyGems key', 'rubygems_', 'hex', 48],
  ['Clojars token', 'CLOJARS_', 'lower', 60],
  ['crates.io token', 'cio', 'alnum', 32],
  ['NuGet key', 'oy2', 'lower', 43],
  ['Linear key', 'lin_api_', 'alnum', 40],
  ['Postman key', `PMAK-${tail('hex', 24, 11)}-`, 'hex', 34],
  ['ReadMe key', 'rdme_', 'lower', 70],
  ['Figma token', 'figd_', 'word', 40],
  ['Frame.io token', 'fio-u-', 'word', 64],
  ['Adobe secret', 'p8e-', 'alnum', 32],
  ['HubSpot token', 'pat-na1-', 'hex', 36],
  ['Azure client secret', 'abc8Q~', 'word', 34],
  ['Mapbox secret token', 'sk.eyJ', 'alnum', 80],
  ['MaxMind key', `${tail('alnum', 6, 12)}_`, 'alnum', 29],
  ['JSON web token', `eyJ${tail('alnum', 33, 13)}.eyJ${tail('alnum', 40, 14)}.`, 'word', 43],
  ['Slipway token', 'swt_', 'word', 43],
];

const suffixes: Record<string, string> = { 'Mailchimp key': '-us12', 'MaxMind key': '_mmk' };

export interface SampleSecret {
  name: string;
  secret: string;
  /** The part that must not be visible. */
  hidden: string;
}

export const sampleSecrets: readonly SampleSecret[] = formats.map(([name, prefix, kind, length], seed) => {
  const hidden = tail(kind, length, seed);
  return { name, secret: `${prefix}${hidden}${suffixes[name] ?? ''}`, hidden };
});
