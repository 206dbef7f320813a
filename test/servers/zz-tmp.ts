import { startVersitygw } from './s3-servers.ts';
import { newBucketOf, restrictedCredentials } from './s3-access.ts';
import { spawnSync } from 'node:child_process';
import { startMinio } from './s3-servers.ts';
const which = process.argv[2];
const server = await (which === 'vgw' ? startVersitygw() : startMinio());
const b = await newBucketOf(server);
const go = (args: string[], env = b.env as Record<string,string>) => { const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=holdfast-source', '/work/main/packages/cli/src/main.ts', ...args], { env: { ...process.env, ...env }, encoding: 'utf8' }); console.log(stdout + stderr + 'exit', status); };
if (which === 'vgw') { for (let i = 0; i < 3; i++) go(['doctor', b.uri, '--quick']); }
else {
  for (const deny of ['s3:ListBucket', 's3:PutObject', 's3:GetObject', 's3:DeleteObject']) {
    console.log('--- without', deny);
    const c = await restrictedCredentials(server, { Statement: [ { Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] }, { Effect: 'Deny', Action: [deny], Resource: ['arn:aws:s3:::*'] } ] });
    go(['doctor', b.uri, '--quick'], { AWS_ACCESS_KEY_ID: c.accessKeyId, AWS_SECRET_ACCESS_KEY: c.secretAccessKey, AWS_SESSION_TOKEN: c.sessionToken });
  }
  console.log('--- wrong secret'); go(['doctor', b.uri, '--quick'], { ...b.env, AWS_SECRET_ACCESS_KEY: 'wrong' });
  console.log('--- missing bucket'); go(['doctor', b.uri.replace(b.bucket, 'no-such-bucket'), '--quick']);
  console.log('--- down'); go(['doctor', b.uri.replace(encodeURIComponent(server.endpoint), encodeURIComponent('http://127.0.0.1:1')), '--quick']);
}
await server.stop();
