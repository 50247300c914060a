/* The CPI of the tests in a userland. Passes the file $2 and its standard streams to the process that listens at the
   socket $1, and ends with the exit status that this process sends back. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char config[16384];
    /* CMSG_SPACE of three integers, aligned. */
    long control[8];
    int streams[] = {0, 1, 2};
    unsigned char status = 1;
    struct sockaddr_un address;
    struct iovec data;
    struct msghdr message;
    struct cmsghdr *header;
    FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;
    int wire = socket(AF_UNIX, SOCK_STREAM, 0);

    if (!file) {
        perror("the configuration");
        return 1;
    }
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    if (connect(wire, (struct sockaddr *)&address, sizeof address)) {
        perror(argv[1]);
        return 1;
    }
    data.iov_base = config;
    data.iov_len = fread(config, 1, sizeof config, file);
    memset(&message, 0, sizeof message);
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof streams);
    header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(header), streams, sizeof streams);
    if (sendmsg(wire, &message, 0) < 0) {
        perror("sendmsg");
        return 1;
    }
    shutdown(wire, SHUT_WR);
    read(wire, &status, 1);
    return status;
}
